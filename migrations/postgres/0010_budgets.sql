-- Manners at the gate and budgets: what a definition may say of them, and what is kept of a budget.
ALTER TABLE reg_prov_rate_limit_cfg ADD COLUMN shared_name TEXT COLLATE "C";
ALTER TABLE reg_prov_rate_limit_cfg ADD COLUMN adapt_step TEXT COLLATE "C";
ALTER TABLE reg_prov_rate_limit_cfg ADD COLUMN adapt_cool_down TEXT COLLATE "C";
ALTER TABLE reg_prov_rate_limit_cfg ADD COLUMN adapt_hold BIGINT;
ALTER TABLE reg_prov_rate_limit_cfg ADD COLUMN adapt_demote TEXT COLLATE "C";
ALTER TABLE reg_prov_rate_limit_cfg ADD COLUMN adapt_slowest TEXT COLLATE "C";
ALTER TABLE reg_prov_rate_limit_cfg ADD COLUMN adapt_warm_up TEXT COLLATE "C";
ALTER TABLE reg_prov_rate_limit_cfg ADD COLUMN backfill_share TEXT COLLATE "C";
ALTER TABLE reg_prov_rate_limit_cfg ADD COLUMN quota_per_hour BIGINT;
ALTER TABLE reg_prov_rate_limit_cfg ADD COLUMN quota_per_day BIGINT;
ALTER TABLE reg_prov_rate_limit_cfg ADD COLUMN quota_reserve TEXT COLLATE "C";
ALTER TABLE reg_prov_rate_limit_cfg ADD COLUMN quota_soft TEXT COLLATE "C";
ALTER TABLE reg_prov_rate_limit_cfg ADD COLUMN quota_reset TEXT COLLATE "C";
ALTER TABLE reg_prov_rate_limit_cfg ADD COLUMN quota_zone TEXT COLLATE "C";
-- What BACKFILL leaves to UPDATE and HARVEST.
ALTER TABLE ing_quota ADD COLUMN soft_count BIGINT NOT NULL DEFAULT 0;
