-- The circuit of an endpoint, for the whole fleet: who may ask a source that does not answer (INV-51).
ALTER TABLE ing_source_control ADD COLUMN circuit_code TEXT NOT NULL DEFAULT 'CLOSED';
ALTER TABLE ing_source_control ADD COLUMN circuit_until TEXT;
ALTER TABLE ing_source_control ADD COLUMN circuit_epoch INTEGER NOT NULL DEFAULT 0;
-- Healers hold planning, and make the next plan end earlier.
ALTER TABLE ing_source_control ADD COLUMN held_until TEXT;
ALTER TABLE ing_source_control ADD COLUMN held_reason TEXT;
ALTER TABLE ing_source_control ADD COLUMN lag_raised_us INTEGER NOT NULL DEFAULT 0;

-- Alarms: open_key is the alarm's key while it is on, so one cause is one row for the whole fleet.
CREATE TABLE ing_alarm (
    id INTEGER PRIMARY KEY,
    open_key TEXT,
    kind_code TEXT NOT NULL,
    provenance_code TEXT NOT NULL,
    what TEXT NOT NULL,
    message TEXT NOT NULL,
    status_code TEXT NOT NULL CHECK (status_code IN ('OPEN','CLEARED')),
    told_code TEXT NOT NULL CHECK (told_code IN ('NOTHING','RAISED','CLEARED')),
    telling_until TEXT,
    raised_at TEXT NOT NULL,
    cleared_at TEXT
);
CREATE UNIQUE INDEX uk_alarm_open ON ing_alarm (open_key);
CREATE INDEX idx_alarm_told ON ing_alarm (told_code, status_code);
