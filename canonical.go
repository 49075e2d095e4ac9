package idem

import (
	"bytes"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"
)

// maxDepth bounds the nesting of objects and arrays, and with it the recursion.
const maxDepth = 1000

// canonical brings JSON into the form that [Fingerprinter] documents. It reads
// the text once and writes the canonical spelling of its tokens to out in the order
// they come; objects whose members have to change places are noted in objects and
// put in order by writeTo. So a body is copied once, however deep it is.
type canonical struct {
	src []byte
	pos int

	out   []byte
	names []byte   // unescaped names of the objects that are being read
	open  []member // members of the objects that are being read
	text  []byte   // one unescaped string

	objects []object // by their start in out; without those at the end that are in order
	moved   []member // members of objects, in order
}

// object is an object in out. One whose members are in order has an end of 0.
type object struct {
	start, end  int // in out, with the braces
	first, last int // in moved
	next        int // in objects: the first that starts after this one
}

// member is a member in out. One that is left out has an end of 0.
type member struct {
	nameStart, nameEnd int // in names
	start, end         int // in out, without commas
	object             int // in objects: the first that starts after start
}

func (c *canonical) size() int {
	const perObject, perMember = 40, 40
	return cap(c.out) + cap(c.names) + cap(c.text) + perObject*cap(c.objects) + perMember*(cap(c.open)+cap(c.moved))
}

func (c *canonical) reset(src []byte) {
	c.src, c.pos = src, 0
	c.out, c.names, c.text = c.out[:0], c.names[:0], c.text[:0]
	c.open, c.objects, c.moved = c.open[:0], c.objects[:0], c.moved[:0]
}

// parse reads a JSON text. It is not ok if the text has no canonical form; found
// tells whether any of it is selected.
func (c *canonical) parse(src []byte, root place) (found, ok bool) {
	if !utf8.Valid(src) {
		return false, false
	}
	c.reset(src)
	found, ok = c.value(0, root)
	if !ok {
		return false, false
	}
	c.space()
	return found, c.pos == len(c.src)
}

// writeTo writes the canonical form of what was parsed last. An error is that of w.
func (c *canonical) writeTo(w io.Writer) { c.writeRange(w, 0, len(c.out), 0) }

var comma = []byte{','}

// writeRange writes a range of out in which the object with the index next is the
// first.
func (c *canonical) writeRange(w io.Writer, from, to, next int) {
	for next < len(c.objects) && c.objects[next].start < to {
		o := c.objects[next]
		if o.end == 0 {
			next++
			continue
		}
		_, _ = w.Write(c.out[from : o.start+1])
		for i, m := range c.moved[o.first:o.last] {
			if i > 0 {
				_, _ = w.Write(comma)
			}
			c.writeRange(w, m.start, m.end, m.object)
		}
		from, next = o.end-1, o.next
	}
	_, _ = w.Write(c.out[from:to])
}

// value reads a value at a place. If it is not found to have anything selected in it,
// the caller takes back what was written.
func (c *canonical) value(depth int, p place) (found, ok bool) {
	c.space()
	switch c.peek() {
	case '{', '[':
		if depth == maxDepth {
			return false, false
		}
		if c.peek() == '{' {
			return c.object(depth+1, p)
		}
		return c.array(depth+1, p)
	case '"':
		ok = c.string()
	case 't':
		ok = c.literal("true")
	case 'f':
		ok = c.literal("false")
	case 'n':
		ok = c.literal("null")
	default:
		ok = c.number()
	}
	return p.only == everything, ok
}

func (c *canonical) object(depth int, p place) (found, ok bool) {
	found = p.only == everything
	self := len(c.objects)
	c.objects = append(c.objects, object{start: len(c.out)})
	firstOpen, firstName := len(c.open), len(c.names)
	ordered, empty := true, true
	c.out = append(c.out, '{')
	for more := c.begin('}'); more; {
		before := len(c.out)
		if !empty {
			c.out = append(c.out, ',')
		}
		m := member{start: len(c.out), object: len(c.objects), nameStart: len(c.names)}
		if !c.name() {
			return false, false
		}
		m.nameEnd = len(c.names)
		if n := len(c.open); ordered && n > firstOpen {
			ordered = bytes.Compare(c.nameOf(c.open[n-1]), c.nameOf(m)) < 0
		}
		sub, keep := p.child(c.nameOf(m))
		below, ok := c.value(depth, sub)
		if !ok {
			return false, false
		}
		if keep && below {
			m.end = len(c.out)
			found, empty = true, false
		} else {
			c.takeBack(before, m.object)
		}
		c.open = append(c.open, m)
		if more, ok = c.another('}'); !ok {
			return false, false
		}
	}
	c.out = append(c.out, '}')
	if !ordered && !c.order(self, firstOpen) {
		return false, false
	}
	if ordered && len(c.objects) == self+1 {
		c.objects = c.objects[:self]
	}
	c.open, c.names = c.open[:firstOpen], c.names[:firstName]
	return found, true
}

// order puts the members of an object that has just ended in order. It is not
// ok if two have one name.
func (c *canonical) order(self, firstOpen int) bool {
	members := c.open[firstOpen:]
	slices.SortFunc(members, func(a, b member) int { return bytes.Compare(c.nameOf(a), c.nameOf(b)) })
	o := &c.objects[self]
	o.end, o.next, o.first = len(c.out), len(c.objects), len(c.moved)
	for i, m := range members {
		if i > 0 && bytes.Equal(c.nameOf(members[i-1]), c.nameOf(m)) {
			return false
		}
		if m.end > 0 {
			c.moved = append(c.moved, m)
		}
	}
	o.last = len(c.moved)
	return true
}

func (c *canonical) nameOf(m member) []byte { return c.names[m.nameStart:m.nameEnd] }

func (c *canonical) array(depth int, p place) (found, ok bool) {
	found = p.only == everything
	c.out = append(c.out, '[')
	missing, index := 0, 0 // missing: commas that are due before the next element
	for more := c.begin(']'); more; index++ {
		before, objects := len(c.out), len(c.objects)
		sub, keep := p, true
		if !p.plain() {
			var digits [20]byte
			sub, keep = p.child(strconv.AppendInt(digits[:0], int64(index), 10))
		}
		if keep {
			for range missing {
				c.out = append(c.out, ',')
			}
		}
		below, ok := c.value(depth, sub)
		if !ok {
			return false, false
		}
		if keep && below {
			found, missing = true, 0
		} else {
			c.takeBack(before, objects)
		}
		missing++
		if more, ok = c.another(']'); !ok {
			return false, false
		}
	}
	c.out = append(c.out, ']')
	return found, true
}

// takeBack undoes what was written for a value that is left out. Its members may
// stay in moved, where nothing refers to them any more.
func (c *canonical) takeBack(out, objects int) {
	c.out, c.objects = c.out[:out], c.objects[:objects]
}
