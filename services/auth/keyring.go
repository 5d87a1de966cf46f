package auth

// Keyring signs and checks the tokens of agents.
type Keyring struct{}
