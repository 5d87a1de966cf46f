package collect

import (
	"sync"
	"time"
)

// Clock is the cluster's time: wall time, or that of a simulated cluster as last read and carried forward at its speed.
type Clock struct {
	// mu guards the reading.
	mu    sync.Mutex
	atMS  int64 // 0: wall time
	speed float64
	read  time.Time
}

// Set takes a reading of a simulated clock.
func (c *Clock) Set(atMS int64, speed float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.atMS, c.speed, c.read = atMS, speed, time.Now()
}

// NowMS is the cluster's time in unix milliseconds. Between two readings a simulated clock runs on for at most ten wall
// seconds: a simulator that stopped answering has stopped.
func (c *Clock) NowMS() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.atMS == 0 {
		return time.Now().UnixMilli()
	}
	return c.atMS + int64(float64(min(time.Since(c.read), 10*time.Second).Milliseconds())*c.speed)
}

// Simulated says whether the clock is not wall time, and how fast it runs.
func (c *Clock) Simulated() (speed float64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.speed, c.atMS != 0
}

// TransitMS is the cluster time that passes while a plan travels, beyond what passes at wall speed: two wall seconds of a
// clock that runs fast. On wall time it is zero.
func (c *Clock) TransitMS() int64 {
	if speed, ok := c.Simulated(); ok && speed > 1 {
		return int64((speed - 1) * 2000)
	}
	return 0
}
