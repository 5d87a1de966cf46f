package auth

// Sealer encrypts secrets at rest.
type Sealer struct{}
