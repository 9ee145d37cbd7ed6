-- Manners at the gate and budgets: what a definition may say of them, and what is kept of a budget.
-- Run again after an interruption, it finds the columns and does nothing.
SET @patra_missing = (SELECT COUNT(*) = 0 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'reg_prov_rate_limit_cfg' AND column_name = 'shared_name');
SET @patra_change = IF(@patra_missing, 'ALTER TABLE reg_prov_rate_limit_cfg ADD COLUMN shared_name LONGTEXT, ADD COLUMN adapt_step LONGTEXT, ADD COLUMN adapt_cool_down LONGTEXT, ADD COLUMN adapt_hold BIGINT, ADD COLUMN adapt_demote LONGTEXT, ADD COLUMN adapt_slowest LONGTEXT, ADD COLUMN adapt_warm_up LONGTEXT, ADD COLUMN backfill_share LONGTEXT, ADD COLUMN quota_per_hour BIGINT, ADD COLUMN quota_per_day BIGINT, ADD COLUMN quota_reserve LONGTEXT, ADD COLUMN quota_soft LONGTEXT, ADD COLUMN quota_reset LONGTEXT, ADD COLUMN quota_zone LONGTEXT', 'DO 0');
PREPARE patra_change FROM @patra_change;
EXECUTE patra_change;
DEALLOCATE PREPARE patra_change;
-- What BACKFILL leaves to UPDATE and HARVEST.
SET @patra_missing = (SELECT COUNT(*) = 0 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'ing_quota' AND column_name = 'soft_count');
SET @patra_change = IF(@patra_missing, 'ALTER TABLE ing_quota ADD COLUMN soft_count BIGINT NOT NULL DEFAULT 0', 'DO 0');
PREPARE patra_change FROM @patra_change;
EXECUTE patra_change;
DEALLOCATE PREPARE patra_change;
