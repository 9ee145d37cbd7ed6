//! Source definitions: from YAML to registry rows, and from rows to a compiled spec.
