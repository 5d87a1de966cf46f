package lab

import "testing"

func TestOursIsScoredUnderAnotherObjective(t *testing.T) {
	t.Parallel()
	board := Board{}
	entries, err := Named([]string{"plimsoll-cq", "plimsoll-cq-100", "plimsoll-cq-5"})
	if err != nil {
		t.Fatal(err)
	}
	w := BuiltinWorkloads()
	tr, err := w[0].Build(w[0].Invent(1), 1)
	if err != nil {
		t.Fatal(err)
	}
	l, err := w[0].Load(tr)
	if err != nil {
		t.Fatal(err)
	}
	if err := board.AddLoad(l, entries); err != nil {
		t.Fatal(err)
	}
	plain, _ := board.Row(tr.Name, "plimsoll-cq")
	same, _ := board.Row(tr.Name, "plimsoll-cq-100")
	strict, _ := board.Row(tr.Name, "plimsoll-cq-5")
	if plain.Paid != same.Paid || plain.LateRate != same.LateRate {
		t.Errorf("1 %% is the default: %.2f replica-hours, %.4f late; by name %.2f and %.4f", plain.Paid, plain.LateRate, same.Paid, same.LateRate)
	}
	if strict.LateRate > plain.LateRate || strict.Paid <= plain.Paid {
		t.Errorf("twenty times as strict: %.2f replica-hours and %.4f late for %.2f and %.4f", strict.Paid, strict.LateRate, plain.Paid, plain.LateRate)
	}
}

func TestAnObjectiveOutOfRangeIsNoPolicy(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"plimsoll-cq-0", "plimsoll-cq--5", "plimsoll-cq-1001", "plimsoll-cq-0.5", "plimsoll-cq-"} {
		if _, err := Named([]string{name}); err == nil {
			t.Errorf("%s is taken for a policy", name)
		}
	}
}
