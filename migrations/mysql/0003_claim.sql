-- Claims take turns over (provenance, endpoint, operation), then go by priority and time: one seek for each.
-- Run again after an interruption, it finds the index and does nothing.
SET @patra_missing = (SELECT COUNT(*) = 0 FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'ing_task' AND index_name = 'idx_task_claim');
SET @patra_change = IF(@patra_missing,
    'ALTER TABLE ing_task DROP INDEX idx_task_src_op, ADD INDEX idx_task_claim (status_code, provenance_code, endpoint_name, operation_code, priority, scheduled_at, id)',
    'DO 0');
PREPARE patra_change FROM @patra_change;
EXECUTE patra_change;
DEALLOCATE PREPARE patra_change;
