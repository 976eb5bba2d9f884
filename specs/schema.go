package specs

import _ "embed"

// Schema is the JSON schema of case files, made from the types of this package.
//
//go:generate go test -run TestSchemaIsCurrent -update .
//go:embed schema.json
var Schema []byte
