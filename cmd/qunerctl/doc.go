// Command qunerctl is quner's command line: a client of the daemon's API that prints pages for people, and with --json
// the API's messages for scripts.
package main
