//go:build !jump

package main

import "time"

func jumpWallClock(time.Duration) { panic("built without the tag jump") }
