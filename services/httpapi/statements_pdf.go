package httpapi

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf16"
)

// A page is A4 in points, with these margins and columns.
const (
	pdfWidth, pdfHeight = 595.0, 842.0
	pdfLeft, pdfRight   = 40.0, 555.0
	pdfTop, pdfBottom   = 790.0, 60.0
	pdfSize             = 8.0
	pdfLine             = 13.0
)

// helvetica are the widths of the printable characters of ASCII in thousandths of the size, from space on (Adobe's Core 14 metrics).
var helvetica = [95]int{278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015,
	667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, 333,
	556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584}

// statementPDF writes a statement as PDF 1.4. Text in ASCII is Helvetica, all other text the standard Chinese font of readers, which they
// bring along or replace: no font is embedded, and both have every character that they are used for.
func statementPDF(v Statement, w statementText) []byte {
	p := printStatement(v, w, "")
	doc := &pdf{}
	doc.page()
	doc.text(pdfLeft, 18, true, p.Title)
	doc.y -= 20
	doc.text(pdfLeft, 11, false, p.Subject)
	doc.y -= 22
	for _, f := range p.Facts {
		doc.text(pdfLeft, pdfSize+1, false, f[0])
		doc.text(pdfLeft+90, pdfSize+1, false, f[1])
		doc.y -= pdfLine
	}
	doc.y -= 12
	doc.head(p)
	for _, r := range p.Rows {
		if doc.y < pdfBottom {
			doc.page()
			doc.head(p)
		}
		doc.row(false, r)
	}
	if doc.y < pdfBottom+pdfLine {
		doc.page()
	}
	doc.rule()
	doc.row(true, printedRow{Name: w.Total, Amount: p.Total})
	doc.y -= 10
	for _, note := range p.Notes {
		for _, line := range wrapped(note, pdfRight-pdfLeft, pdfSize) {
			if doc.y < pdfBottom {
				doc.page()
			}
			doc.text(pdfLeft, pdfSize, false, line)
			doc.y -= 11
		}
	}
	return doc.bytes(p.Title + " " + p.Subject)
}

// pdf gathers the content of pages.
type pdf struct {
	pages []*bytes.Buffer
	y     float64
}

func (d *pdf) page() {
	d.pages = append(d.pages, &bytes.Buffer{})
	d.y = pdfTop
}

func (d *pdf) out() *bytes.Buffer { return d.pages[len(d.pages)-1] }

func (d *pdf) rule() {
	fmt.Fprintf(d.out(), "0.6 w %.1f %.1f m %.1f %.1f l S\n", pdfLeft, d.y+pdfLine-3, pdfRight, d.y+pdfLine-3)
}

// columns end here, but for the first two, which begin.
const pdfNamespace, pdfHours, pdfGPU, pdfCPU, pdfMemory = 190.0, 318.0, 376.0, 434.0, 484.0

func (d *pdf) head(p printed) {
	w := p.Words
	d.row(true, printedRow{w.Line, w.Namespace, w.Hours, w.CPU, w.Memory, w.GPU, p.Currency})
	d.rule()
}

func (d *pdf) row(bold bool, r printedRow) {
	d.text(pdfLeft, pdfSize, bold, fitted(r.Name, pdfNamespace-pdfLeft-6, pdfSize))
	d.text(pdfNamespace, pdfSize, bold, fitted(r.Namespace, 80, pdfSize))
	for _, c := range []struct {
		at   float64
		text string
	}{{pdfHours, r.Hours}, {pdfGPU, cents(r.GPU)}, {pdfCPU, cents(r.CPU)}, {pdfMemory, cents(r.Memory)}, {pdfRight, r.Amount}} {
		d.text(c.at-pdfTextWidth(c.text, pdfSize), pdfSize, bold, c.text)
	}
	d.y -= pdfLine
}

// cents cuts an amount to four places, for the columns of parts; totals are shown in full.
func cents(s string) string {
	if at := strings.IndexByte(s, '.'); at >= 0 && len(s) > at+5 {
		return s[:at+5] + "…"
	}
	return s
}

func latin(r rune) bool { return r >= ' ' && r <= '~' }

// plainRunes replaces what the fonts would show differently.
func plainRunes(s string) string {
	return strings.NewReplacer("–", "-", "·", "-", "…", "..").Replace(s)
}

func pdfTextWidth(s string, size float64) float64 {
	sum := 0
	for _, r := range plainRunes(s) {
		if latin(r) {
			sum += helvetica[r-' ']
		} else {
			sum += 1000
		}
	}
	return float64(sum) / 1000 * size
}

// fitted cuts a text to a width.
func fitted(s string, width, size float64) string {
	if pdfTextWidth(s, size) <= width {
		return s
	}
	runes := []rune(s)
	for len(runes) > 0 && pdfTextWidth(string(runes)+"…", size) > width {
		runes = runes[:len(runes)-1]
	}
	return string(runes) + "…"
}

// wrapped breaks a text into lines at spaces, or where there are none, anywhere.
func wrapped(s string, width, size float64) (lines []string) {
	line := ""
	for _, word := range strings.SplitAfter(s, " ") {
		for pdfTextWidth(word, size) > width {
			cut := []rune(word)
			for pdfTextWidth(string(cut), size) > width {
				cut = cut[:len(cut)-1]
			}
			lines, line, word = append(lines, line+string(cut)), "", word[len(string(cut)):]
		}
		if pdfTextWidth(line+word, size) > width {
			lines, line = append(lines, line), ""
		}
		line += word
	}
	return append(lines, line)
}

// text writes a line in runs of one font.
func (d *pdf) text(x, size float64, bold bool, s string) {
	if s == "" {
		return
	}
	font := "F1"
	if bold {
		font = "F2"
	}
	fmt.Fprintf(d.out(), "BT %.2f %.2f Td ", x, d.y)
	runes := []rune(plainRunes(s))
	for len(runes) > 0 {
		n := 1
		for n < len(runes) && latin(runes[n]) == latin(runes[0]) {
			n++
		}
		run := runes[:n]
		runes = runes[n:]
		if latin(run[0]) {
			fmt.Fprintf(d.out(), "/%s %.1f Tf (%s) Tj ", font, size, strings.NewReplacer(`\`, `\\`, "(", `\(`, ")", `\)`).Replace(string(run)))
			continue
		}
		var hex strings.Builder
		for _, unit := range utf16.Encode(run) {
			fmt.Fprintf(&hex, "%04X", unit)
		}
		fmt.Fprintf(d.out(), "/F3 %.1f Tf <%s> Tj ", size, hex.String())
	}
	d.out().WriteString("ET\n")
}

// bytes is the file: catalogue, pages, fonts, contents, and where each begins.
func (d *pdf) bytes(title string) []byte {
	var out bytes.Buffer
	var offsets []int
	object := func(body string) {
		offsets = append(offsets, out.Len())
		fmt.Fprintf(&out, "%d 0 obj\n%s\nendobj\n", len(offsets), body)
	}
	out.WriteString("%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
	var kids strings.Builder
	const first = 9 // objects before the pages
	for i := range d.pages {
		fmt.Fprintf(&kids, "%d 0 R ", first+2*i)
	}
	object("<< /Type /Catalog /Pages 2 0 R >>")
	object(fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d >>", kids.String(), len(d.pages)))
	object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>")
	object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold /Encoding /WinAnsiEncoding >>")
	object("<< /Type /Font /Subtype /Type0 /BaseFont /STSong-Light /Encoding /UniGB-UTF16-H /DescendantFonts [6 0 R] >>")
	object("<< /Type /Font /Subtype /CIDFontType0 /BaseFont /STSong-Light /CIDSystemInfo << /Registry (Adobe) /Ordering (GB1) /Supplement 4 >> /FontDescriptor 7 0 R /DW 1000 >>")
	object("<< /Type /FontDescriptor /FontName /STSong-Light /Flags 6 /FontBBox [-25 -254 1000 880] /ItalicAngle 0 /Ascent 880 /Descent -120 /CapHeight 880 /StemV 93 >>")
	var hex strings.Builder
	for _, unit := range utf16.Encode([]rune(title)) {
		fmt.Fprintf(&hex, "%04X", unit)
	}
	object("<< /Title <FEFF" + hex.String() + "> /Producer (Plimsoll) >>")
	for i, page := range d.pages {
		fmt.Fprintf(page, "BT /F1 7 Tf %.1f 34 Td (%d / %d) Tj ET\n", pdfRight-24, i+1, len(d.pages))
		object(fmt.Sprintf("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 %.0f %.0f] /Resources << /Font << /F1 3 0 R /F2 4 0 R /F3 5 0 R >> >> /Contents %d 0 R >>", pdfWidth, pdfHeight, first+2*i+1))
		object(fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", page.Len(), page.String()))
	}
	start := out.Len()
	fmt.Fprintf(&out, "xref\n0 %d\n0000000000 65535 f \n", len(offsets)+1)
	for _, at := range offsets {
		fmt.Fprintf(&out, "%010d 00000 n \n", at)
	}
	fmt.Fprintf(&out, "trailer\n<< /Size %d /Root 1 0 R /Info 8 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(offsets)+1, start)
	return out.Bytes()
}
