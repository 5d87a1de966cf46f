package main

import "time"

// Bounds of a demo's speed: data seconds per second.
const (
	minSpeed = 1
	maxSpeed = 600
)

// demoClock tells the World's time: it runs at a speed from where the World stood.
type demoClock struct {
	wall  time.Time
	data  time.Time
	speed float64
}

func newDemoClock(wall, data time.Time, speed float64) demoClock {
	return demoClock{wall: wall, data: data, speed: speed}
}

// at is the data time at a moment.
func (c demoClock) at(wall time.Time) time.Time {
	return c.data.Add(time.Duration(float64(max(wall.Sub(c.wall), 0)) * c.speed))
}

// set changes the speed from a moment on; the time does not jump.
func (c *demoClock) set(wall time.Time, speed float64) {
	c.data, c.wall, c.speed = c.at(wall), wall, speed
}
