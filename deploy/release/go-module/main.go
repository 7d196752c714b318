// Writes a Go module as a module proxy serves it: go run . SOURCES OUT PATH VERSION TIME
//
// OUT/PATH/@v gets the files list, VERSION.info, VERSION.mod and VERSION.zip, for GOPROXY=file://OUT. The zip has no times, and the same bytes for the
// same sources. See https://go.dev/ref/mod#goproxy-protocol and https://go.dev/ref/mod#zip-files.
package main

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

func main() {
	if len(os.Args) != 6 {
		log.Fatal("usage: go run . SOURCES OUT PATH VERSION TIME")
	}
	if err := write(os.Args[1], os.Args[2], module.Version{Path: os.Args[3], Version: os.Args[4]}, os.Args[5]); err != nil {
		log.Fatal(err)
	}
}

func write(sources, out string, version module.Version, time string) error {
	escaped, err := module.EscapePath(version.Path)
	if err != nil {
		return err
	}
	folder := filepath.Join(out, escaped, "@v")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	definition, err := os.ReadFile(filepath.Join(sources, "go.mod"))
	if err != nil {
		return err
	}
	files := map[string]string{
		"list":                    version.Version + "\n",
		version.Version + ".info": fmt.Sprintf("{\"Version\":%q,\"Time\":%q}\n", version.Version, time),
		version.Version + ".mod":  string(definition),
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	archive, err := os.Create(filepath.Join(folder, version.Version+".zip"))
	if err != nil {
		return err
	}
	if err := zip.CreateFromDir(archive, version, sources); err != nil {
		return err
	}
	return archive.Close()
}
