package packing

// packAll packs pods under everything they and the options ask.
func packAll(pods []Pod, offerings []Offering, opts Options) *Answer {
	p := newProblem(pods, offerings, opts)
	s := newSolver(p)
	s.solve()
	return s.answer()
}
