-- A plan whose slices do not all have a task yet keeps what those tasks are going to be. What a task is expected to cost
-- is reserved of a budget while the task is open.
-- Run again after an interruption, it finds what is there and does nothing.
SET @patra_missing = (SELECT COUNT(*) = 0 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'ing_plan_slice' AND column_name = 'held_task');
SET @patra_change = IF(@patra_missing, 'ALTER TABLE ing_plan_slice ADD COLUMN held_task LONGTEXT', 'DO 0');
PREPARE patra_change FROM @patra_change;
EXECUTE patra_change;
DEALLOCATE PREPARE patra_change;
SET @patra_missing = (SELECT COUNT(*) = 0 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'ing_plan_slice' AND column_name = 'held_priority');
SET @patra_change = IF(@patra_missing, 'ALTER TABLE ing_plan_slice ADD COLUMN held_priority BIGINT', 'DO 0');
PREPARE patra_change FROM @patra_change;
EXECUTE patra_change;
DEALLOCATE PREPARE patra_change;
SET @patra_missing = (SELECT COUNT(*) = 0 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'ing_task' AND column_name = 'expected_requests');
SET @patra_change = IF(@patra_missing, 'ALTER TABLE ing_task ADD COLUMN expected_requests BIGINT NOT NULL DEFAULT 0', 'DO 0');
PREPARE patra_change FROM @patra_change;
EXECUTE patra_change;
DEALLOCATE PREPARE patra_change;
-- Credentials of a source that are used together.
SET @patra_missing = (SELECT COUNT(*) = 0 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'reg_prov_credential' AND column_name = 'is_pooled');
SET @patra_change = IF(@patra_missing, 'ALTER TABLE reg_prov_credential ADD COLUMN is_pooled BIGINT', 'DO 0');
PREPARE patra_change FROM @patra_change;
EXECUTE patra_change;
DEALLOCATE PREPARE patra_change;
