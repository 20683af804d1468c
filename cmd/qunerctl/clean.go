package main

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// clean shows control characters, line breaks and bidirectional overrides as escapes, so that a name read from a device
// or given by a caller cannot steer the terminal.
func clean(s string) string { return cleanBut(s, "") }

// cleanBut is clean that lets the characters of keep through.
func cleanBut(s, keep string) string {
	if strings.IndexFunc(s, func(r rune) bool { return steers(r) && !strings.ContainsRune(keep, r) }) < 0 {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case !steers(r) || strings.ContainsRune(keep, r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// steers tells whether a terminal may act on r instead of showing it; invalid UTF-8 arrives as RuneError.
func steers(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) || r == utf8.RuneError
}

// cleanMessage cleans every text in m in place. A field named script keeps its lines.
func cleanMessage(m protoreflect.Message) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsList():
			list := v.List()
			for i := range list.Len() {
				list.Set(i, cleanValue(fd, list.Get(i)))
			}
		case fd.IsMap():
			v.Map().Range(func(k protoreflect.MapKey, item protoreflect.Value) bool {
				v.Map().Set(k, cleanValue(fd.MapValue(), item))
				return true
			})
		default:
			m.Set(fd, cleanValue(fd, v))
		}
		return true
	})
}

func cleanValue(fd protoreflect.FieldDescriptor, v protoreflect.Value) protoreflect.Value {
	switch fd.Kind() {
	case protoreflect.StringKind:
		if fd.Name() == "script" {
			return protoreflect.ValueOfString(cleanBut(v.String(), "\n\t"))
		}
		return protoreflect.ValueOfString(clean(v.String()))
	case protoreflect.MessageKind:
		cleanMessage(v.Message())
	default:
	}
	return v
}
