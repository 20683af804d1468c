package levers

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/qunerd/quner/internal/host"
)

// schemaVersion is the journal's format. Every later one keeps the meaning of schema, generation, checksum, entries, and
// of an entry's lever, kind, original, ours, boot, load, path and uuid, so that an older quner can still restore from it.
const schemaVersion = 1

// journal is the record of what the host had before quner moved it.
type journal struct {
	schema     int
	generation uint64 // counts saves
	entries    []entry
}

// entry is one lever that quner holds.
type entry struct {
	Lever      string  `json:"lever"`
	Kind       Kind    `json:"kind"`
	Original   Value   `json:"original"` // recorded once, at take-over
	Ours       []Value `json:"ours"`     // what quner wrote or was about to write; the newest last
	Boot       string  `json:"boot,omitempty"`
	Load       string  `json:"load,omitempty"` // of the driver; see class.load
	Generation uint64  `json:"generation"`     // of the journal that last changed the entry
	Unit       string  `json:"unit,omitempty"`
	address

	rest map[string]json.RawMessage // what a newer quner has written beside
}

// address is where the control is, for whoever restores with no daemon.
type address struct {
	Path string `json:"path,omitempty"` // of the file to write
	UUID string `json:"uuid,omitempty"` // of the board
}

// addressed is a lever that can be moved by a shell line.
type addressed interface{ address() address }

// errForeign is a JSON object without our schema field: the journal of quner's predecessor, which had the same name.
var errForeign = errors.New("no schema field")

// envelope is the file. Entries are checked as they are written, but for space.
type envelope struct {
	Schema     int             `json:"schema"`
	Generation uint64          `json:"generation"`
	Checksum   string          `json:"checksum"` // sha256 of the entries without space
	Entries    json.RawMessage `json:"entries"`
}

// parseJournal reads a journal. errForeign is the predecessor's; any other error is a journal that cannot be trusted.
func parseJournal(r io.Reader) (journal, error) {
	data, err := io.ReadAll(io.LimitReader(r, host.MaxFile+1))
	if err != nil {
		return journal{}, err
	}
	if len(data) > host.MaxFile {
		return journal{}, fmt.Errorf("longer than %d bytes", host.MaxFile)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return journal{}, err
	}
	if fields == nil {
		return journal{}, errors.New("holds null")
	}
	if _, ours := fields["schema"]; !ours {
		return journal{}, errForeign
	}
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return journal{}, err
	}
	if e.Schema < 1 {
		return journal{}, fmt.Errorf("schema %d", e.Schema)
	}
	var entries bytes.Buffer
	if err := json.Compact(&entries, e.Entries); err != nil {
		return journal{}, fmt.Errorf("entries: %w", err)
	}
	if checksum(entries.Bytes()) != e.Checksum {
		return journal{}, errors.New("checksum does not fit the entries")
	}
	j := journal{schema: e.Schema, generation: e.Generation}
	if err := json.Unmarshal(entries.Bytes(), &j.entries); err != nil {
		return journal{}, err
	}
	return j, j.check()
}

// check refuses entries that would not do for restoring: what is written below is from this file.
func (j journal) check() error {
	seen := map[string]bool{}
	for _, e := range j.entries {
		if seen[e.Lever] {
			return fmt.Errorf("%q is there twice", e.Lever)
		}
		seen[e.Lever] = true
		texts := []string{e.Lever, string(e.Kind), string(e.Original)}
		for _, v := range e.Ours {
			texts = append(texts, string(v))
		}
		for _, s := range texts {
			if !valid(s) {
				return fmt.Errorf("entry %q holds the value %q", printable(e.Lever), printable(s))
			}
		}
		for _, s := range []string{e.Boot, e.Load, e.Unit, e.Path, e.UUID} {
			if s != printable(s) {
				return fmt.Errorf("entry %q holds %q", e.Lever, printable(s))
			}
		}
	}
	return nil
}

// marshal is the file's content; parseJournal takes it back as it was.
func (j journal) marshal() ([]byte, error) {
	list := j.entries
	if list == nil {
		list = []entry{}
	}
	entries, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	e := envelope{max(j.schema, schemaVersion), j.generation, checksum(entries), entries}
	data, err := json.MarshalIndent(e, "", "  ")
	return append(data, '\n'), err
}

// checksum is of entries without space.
func checksum(entries []byte) string {
	sum := sha256.Sum256(entries)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// plainEntry is an entry without its methods: the fields this version knows.
type plainEntry entry

// UnmarshalJSON keeps the fields it does not know.
func (e *entry) UnmarshalJSON(data []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	var p plainEntry
	if err := json.Unmarshal(data, &p); err != nil {
		return err
	}
	for _, known := range []string{"lever", "kind", "original", "ours", "boot", "load", "generation", "unit", "path", "uuid"} {
		delete(all, known)
	}
	*e = entry(p)
	if len(all) > 0 {
		e.rest = all
	}
	return nil
}

// MarshalJSON gives back the fields that UnmarshalJSON did not know.
func (e entry) MarshalJSON() ([]byte, error) {
	known, err := json.Marshal(plainEntry(e))
	if err != nil || len(e.rest) == 0 {
		return known, err
	}
	all := maps.Clone(e.rest)
	if err := json.Unmarshal(known, &all); err != nil {
		return nil, err
	}
	return json.Marshal(all)
}

// clone returns a journal that shares nothing that changes.
func (j journal) clone() journal {
	j.entries = slices.Clone(j.entries)
	for i := range j.entries {
		j.entries[i].Ours = slices.Clone(j.entries[i].Ours)
	}
	return j
}

func (j *journal) find(lever string) *entry {
	i := slices.IndexFunc(j.entries, func(e entry) bool { return e.Lever == lever })
	if i < 0 {
		return nil
	}
	return &j.entries[i]
}

// drop removes a lever's entry: it is restored, or somebody else's.
func (j *journal) drop(lever string) {
	j.entries = slices.DeleteFunc(j.entries, func(e entry) bool { return e.Lever == lever })
}

// void says why an entry's original is no longer on the other side of anything, or "": the values of today's kinds end
// with the boot, and a board's with its driver. What cannot be compared is not void.
func (e entry) void(h *host.Host) string {
	if boot := h.BootID(); boot != "" && e.Boot != "" && boot != e.Boot {
		return "it is another boot's"
	}
	c, ok := classOf(e.Kind)
	if !ok || c.load == nil {
		return ""
	}
	load := c.load(h)
	if sort := firstWord(load); sort != "" && sort == firstWord(e.Load) && load != e.Load {
		return "the driver was loaded anew since"
	}
	return ""
}

func firstWord(s string) string {
	word, _, _ := bytes.Cut([]byte(s), []byte(" "))
	return string(word)
}
