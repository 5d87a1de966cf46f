package collect

// DCGMConfig says how to reach DCGM.
type DCGMConfig struct {
	// Address of an nv-hostengine, host:port or the path of a unix socket. Empty: run DCGM inside this process.
	Address string
}
