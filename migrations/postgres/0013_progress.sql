-- How far a lasting work has come (an export under a name, a mapping made anew), and records in the order of their changes.

CREATE TABLE ing_progress (
    id BIGINT NOT NULL,
    kind_code TEXT COLLATE "C" NOT NULL CHECK (kind_code IN ('EXPORT','REMAP')),
    name TEXT COLLATE "C" NOT NULL,
    fingerprint BYTEA NOT NULL,
    position TEXT COLLATE "C" NOT NULL,
    step_no BIGINT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uk_progress ON ing_progress (kind_code, name);
CREATE INDEX idx_record_changed ON ing_record (provenance_code, changed_at, id);
