-- How far a lasting work has come (an export under a name, a mapping made anew), and records in the order of their changes.
-- Run again after an interruption, it finds what is there and does nothing.

CREATE TABLE IF NOT EXISTS ing_progress (
    id BIGINT NOT NULL,
    kind_code VARBINARY(255) NOT NULL CHECK (kind_code IN ('EXPORT','REMAP')),
    name VARBINARY(255) NOT NULL,
    fingerprint BINARY(32) NOT NULL,
    position LONGTEXT NOT NULL,
    step_no BIGINT NOT NULL,
    created_at DATETIME(6) NOT NULL,
    updated_at DATETIME(6) NOT NULL,
    PRIMARY KEY (id),
    UNIQUE KEY uk_progress (kind_code, name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;
SET @patra_missing = (SELECT COUNT(*) = 0 FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'ing_record' AND index_name = 'idx_record_changed');
SET @patra_change = IF(@patra_missing, 'CREATE INDEX idx_record_changed ON ing_record (provenance_code, changed_at, id)', 'DO 0');
PREPARE patra_change FROM @patra_change;
EXECUTE patra_change;
DEALLOCATE PREPARE patra_change;
