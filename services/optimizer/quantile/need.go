package quantile

// Need is what the forecast in charge and the backlog ask for now, in replicas, before the hold.
func (c *Policy) Need() int {
	at := c.queue[c.chief].at
	return int(max(c.wants[at.Cast][at.Quantile], c.catchUp()))
}
