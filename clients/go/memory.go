package gatehouse

import (
	"container/list"
	"sync"
	"time"
)

// clockSkew is what token-service allows.
const clockSkew = 5 * time.Second

// cached is what memory has of a valid token.
type cached struct {
	principal  Principal
	askedAt    time.Time
	answeredAt time.Time
	until      time.Time // has a monotonic reading, which comparisons use
}

// isAlive says whether token-service would still accept the token. The wall clock only ends it, because the monotonic
// clock stops while the machine is suspended.
func (c cached) isAlive(now time.Time) bool {
	return now.Before(c.until) && now.Before(c.principal.ExpiresAt.Add(clockSkew))
}

// refusal is what memory has of a token that token-service has refused.
type refusal struct {
	err   error
	until time.Time
}

// memory keeps the values of the tokens used last, by their whole text.
type memory[V any] struct {
	maxEntries int

	mutex   sync.Mutex
	entries map[string]*list.Element
	order   *list.List // of remembered; the one used last is in front
}

type remembered[V any] struct {
	token string
	value V
}

func newMemory[V any](maxEntries int) *memory[V] {
	return &memory[V]{maxEntries: maxEntries, entries: map[string]*list.Element{}, order: list.New()}
}

func (m *memory[V]) get(token string) (value V, isKnown bool) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	element, isKnown := m.entries[token]
	if !isKnown {
		return value, false
	}
	m.order.MoveToFront(element)
	return element.Value.(remembered[V]).value, true
}

func (m *memory[V]) put(token string, value V) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if element, isKnown := m.entries[token]; isKnown {
		m.order.Remove(element)
	}
	m.entries[token] = m.order.PushFront(remembered[V]{token, value})
	for m.order.Len() > m.maxEntries {
		oldest := m.order.Back()
		m.order.Remove(oldest)
		delete(m.entries, oldest.Value.(remembered[V]).token)
	}
}

func (m *memory[V]) remove(token string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if element, isKnown := m.entries[token]; isKnown {
		m.order.Remove(element)
		delete(m.entries, token)
	}
}
