-- Manners at the gate and budgets: what a definition may say of them, and what is kept of a budget.
ALTER TABLE reg_prov_rate_limit_cfg ADD COLUMN shared_name TEXT;
ALTER TABLE reg_prov_rate_limit_cfg ADD COLUMN adapt_step TEXT;
ALTER TABLE reg_prov_rate_limit_cfg ADD COLUMN adapt_cool_down TEXT;
ALTER TABLE reg_prov_rate_limit_cfg ADD COLUMN adapt_hold INTEGER;
ALTER TABLE reg_prov_rate_limit_cfg ADD COLUMN adapt_demote TEXT;
ALTER TABLE reg_prov_rate_limit_cfg ADD COLUMN adapt_slowest TEXT;
ALTER TABLE reg_prov_rate_limit_cfg ADD COLUMN adapt_warm_up TEXT;
ALTER TABLE reg_prov_rate_limit_cfg ADD COLUMN backfill_share TEXT;
ALTER TABLE reg_prov_rate_limit_cfg ADD COLUMN quota_per_hour INTEGER;
ALTER TABLE reg_prov_rate_limit_cfg ADD COLUMN quota_per_day INTEGER;
ALTER TABLE reg_prov_rate_limit_cfg ADD COLUMN quota_reserve TEXT;
ALTER TABLE reg_prov_rate_limit_cfg ADD COLUMN quota_soft TEXT;
ALTER TABLE reg_prov_rate_limit_cfg ADD COLUMN quota_reset TEXT;
ALTER TABLE reg_prov_rate_limit_cfg ADD COLUMN quota_zone TEXT;
-- What BACKFILL leaves to UPDATE and HARVEST.
ALTER TABLE ing_quota ADD COLUMN soft_count INTEGER NOT NULL DEFAULT 0;
