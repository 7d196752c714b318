//go:build jump

package main

import "time"

// jumpWallClock moves the wall clock of the whole program: the build has a time.Now of its own (see clients/conformance/drivers.ts).
func jumpWallClock(by time.Duration) { time.JumpWallClock(by) }
