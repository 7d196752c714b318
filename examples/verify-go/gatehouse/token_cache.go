package gatehouse

import (
	"container/list"
	"sync"
)

// tokenCache keeps the principals of the tokens used last.
type tokenCache struct {
	maxEntries int

	mutex   sync.Mutex
	entries map[string]*list.Element
	order   *list.List // of cached; the one used last is in front
}

type cached struct {
	token     string
	principal Principal
}

func newTokenCache(maxEntries int) *tokenCache {
	return &tokenCache{maxEntries: maxEntries, entries: map[string]*list.Element{}, order: list.New()}
}

func (c *tokenCache) get(token string) (Principal, bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	element, ok := c.entries[token]
	if !ok {
		return Principal{}, false
	}
	c.order.MoveToFront(element)
	return element.Value.(cached).principal, true
}

func (c *tokenCache) put(token string, principal Principal) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if element, ok := c.entries[token]; ok {
		c.order.Remove(element)
	}
	c.entries[token] = c.order.PushFront(cached{token, principal})
	for c.order.Len() > c.maxEntries {
		oldest := c.order.Back()
		c.order.Remove(oldest)
		delete(c.entries, oldest.Value.(cached).token)
	}
}

func (c *tokenCache) remove(token string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if element, ok := c.entries[token]; ok {
		c.order.Remove(element)
		delete(c.entries, token)
	}
}
