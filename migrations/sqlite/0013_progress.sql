-- How far a lasting work has come (an export under a name, a mapping made anew), and records in the order of their changes.

CREATE TABLE ing_progress (
    id INTEGER PRIMARY KEY,
    kind_code TEXT NOT NULL CHECK (kind_code IN ('EXPORT','REMAP')),
    name TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    position TEXT NOT NULL,
    step_no INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);
CREATE UNIQUE INDEX uk_progress ON ing_progress (kind_code, name);
CREATE INDEX idx_record_changed ON ing_record (provenance_code, changed_at, id);
