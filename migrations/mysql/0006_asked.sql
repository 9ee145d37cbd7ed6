-- The holder of a task that lost leases before says when it asks for the page: only then a loss is the page's (INV-25).
-- Run again after an interruption, it finds the column and does nothing.
SET @patra_missing = (SELECT COUNT(*) = 0 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'ing_task' AND column_name = 'asked_epoch');
SET @patra_change = IF(@patra_missing, 'ALTER TABLE ing_task ADD COLUMN asked_epoch BIGINT NOT NULL DEFAULT 0', 'DO 0');
PREPARE patra_change FROM @patra_change;
EXECUTE patra_change;
DEALLOCATE PREPARE patra_change;
