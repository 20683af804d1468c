package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// writeJSON prints m over several lines for a person's pipe.
func writeJSON(w io.Writer, m proto.Message) error {
	var indented bytes.Buffer
	if err := json.Indent(&indented, appendMessage(nil, m.ProtoReflect()), "", "  "); err != nil {
		return fmt.Errorf("json: %w", err)
	}
	indented.WriteByte('\n')
	_, err := w.Write(indented.Bytes())
	return err
}

// writeJSONLine prints m on one line, for streams of messages.
func writeJSONLine(w io.Writer, m proto.Message) error {
	_, err := w.Write(append(appendMessage(nil, m.ProtoReflect()), '\n'))
	return err
}

// appendMessage appends m as an object with the names of the .proto file in its order. Every field is there, zero or
// not, so that a script finds the same keys each time: an absent optional field or message is null, an absent member
// of a oneof is left out.
func appendMessage(b []byte, m protoreflect.Message) []byte {
	b = append(b, '{')
	fields := m.Descriptor().Fields()
	first := true
	for i := range fields.Len() {
		fd := fields.Get(i)
		oneof := fd.ContainingOneof()
		if oneof != nil && !oneof.IsSynthetic() && !m.Has(fd) {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(appendString(b, string(fd.Name())), ':')
		switch {
		case fd.IsList():
			b = appendList(b, fd, m.Get(fd).List())
		case fd.IsMap():
			b = appendMap(b, fd, m.Get(fd).Map())
		case fd.HasPresence() && !m.Has(fd):
			b = append(b, "null"...)
		default:
			b = appendValue(b, fd, m.Get(fd))
		}
	}
	return append(b, '}')
}

func appendList(b []byte, fd protoreflect.FieldDescriptor, list protoreflect.List) []byte {
	b = append(b, '[')
	for i := range list.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendValue(b, fd, list.Get(i))
	}
	return append(b, ']')
}

func appendMap(b []byte, fd protoreflect.FieldDescriptor, m protoreflect.Map) []byte {
	values := make(map[string]protoreflect.Value, m.Len())
	m.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		values[k.String()] = v
		return true
	})
	b = append(b, '{')
	for i, k := range slices.Sorted(maps.Keys(values)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, k), ':')
		b = appendValue(b, fd.MapValue(), values[k])
	}
	return append(b, '}')
}

func appendValue(b []byte, fd protoreflect.FieldDescriptor, v protoreflect.Value) []byte {
	switch fd.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return appendMessage(b, v.Message())
	case protoreflect.EnumKind:
		return appendString(b, enumWord(fd.Enum(), v.Enum()))
	case protoreflect.StringKind:
		return appendString(b, v.String())
	case protoreflect.BytesKind:
		return appendString(b, base64.StdEncoding.EncodeToString(v.Bytes()))
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return append(b, "null"...) // JSON has no word for it
		}
		number, _ := json.Marshal(v.Float()) // a finite number always has a form
		return append(b, number...)
	default: // bool and all integers print as JSON wants them
		return append(b, v.String()...)
	}
}

// enumWord is an enum's value without its type's name: PROFILE_TRAINING is "training".
func enumWord(e protoreflect.EnumDescriptor, n protoreflect.EnumNumber) string {
	value := e.Values().ByNumber(n)
	if value == nil { // a newer daemon's
		return strconv.Itoa(int(n))
	}
	prefix := strings.TrimSuffix(string(e.Values().ByNumber(0).Name()), "UNSPECIFIED")
	return strings.ToLower(strings.TrimPrefix(string(value.Name()), prefix))
}

func appendString(b []byte, s string) []byte {
	quoted, _ := json.Marshal(s) // a string always has a form
	return append(b, quoted...)
}
