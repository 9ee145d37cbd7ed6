//! Behaviours every database must show. A new back-end adds one line to the end of this file.

mod batch;
mod bench;
mod cursor;
mod export;
mod healing;
mod hot;
mod inspect;
mod lease;
mod migrate;
mod open;
mod operator;
mod outbox;
mod partial;
mod plan;
mod prove;
mod quota;
mod records;
mod refresh;
mod registry;
mod remap;
mod schedule;
mod schema;
mod server;
mod slice;
mod split;
mod tombstone;

use bench::{Bench, Place};

macro_rules! ledger_conformance {
    ($backend:ident, $place:expr, { $($module:ident: [$($name:ident),* $(,)?]),* $(,)? }) => {
        mod $backend {
            use super::*;
            $($(
                #[tokio::test]
                async fn $name() {
                    if let Some(bench) = Bench::find($place).await {
                        super::$module::$name(bench).await;
                    }
                }
            )*)*
        }
    };
}

macro_rules! every_backend {
    ($($behaviours:tt)*) => {
        ledger_conformance!(memory, Place::Memory, { $($behaviours)* });
        ledger_conformance!(file, Place::File, { $($behaviours)* });
        ledger_conformance!(postgres, Place::Postgres, { $($behaviours)* });
        ledger_conformance!(mysql, Place::Mysql, { $($behaviours)* });
    };
}

every_backend! {
    batch: [
        a_page_is_visible_whole_or_not_at_all_when_a_step_fails,
        a_page_is_visible_whole_or_not_at_all_when_the_process_dies,
        a_repeated_commit_changes_nothing_and_says_so,
        counts_add_up_in_batch_run_and_slice,
        a_bad_record_is_kept_apart_with_its_reason,
        an_id_with_nul_goes_to_quarantine,
        records_the_database_refuses_are_quarantined_and_the_rest_commits,
        bisection_that_fails_or_dies_leaves_nothing_and_is_repeated_whole,
        a_page_refused_in_too_many_places_is_refused_whole,
        ids_not_returned_are_counted_until_they_are_found,
        a_body_is_kept_once_and_reads_back,
        a_page_that_does_not_follow_its_predecessor_is_refused,
        the_ids_of_a_search_page_read_back_in_order,
    ],
    cursor: [
        a_lost_cursor_is_rebuilt_byte_for_byte,
        a_lost_event_is_named_and_nothing_is_rebuilt_over_it,
        thinned_events_lead_to_the_same_cursor,
    ],
    quota: [
        a_budget_is_never_overdrawn_and_the_last_of_it_is_for_the_harvest,
        two_who_draw_at_once_share_what_is_left,
        an_empty_budget_is_a_fact_for_the_watch_and_can_be_listed,
    ],
    prove: [
        evidence_says_what_each_slice_came_to,
        an_id_that_another_reading_missed_last_is_not_forgotten,
        records_set_aside_before_a_slice_was_cut_are_not_forgotten,
        a_digest_changes_with_the_rows_it_is_of,
        a_digest_takes_no_column_that_the_schema_does_not_have,
        a_page_tells_what_it_decided_of_each_id,
        pages_are_found_by_the_windows_they_touch,
        a_rehearsal_says_what_a_commit_would_do_and_writes_nothing,
    ],
    export: [
        records_come_in_the_order_of_their_keys,
        changes_come_in_their_order_and_end_before_the_next_ones,
        of_two_who_go_on_under_one_name_one_does,
    ],
    remap: [
        a_page_derived_anew_changes_what_it_holds_and_nothing_else,
        a_version_that_wins_under_the_other_mapping_wins_in_the_second_walk,
        a_remap_that_fails_leaves_its_page_as_it_was,
    ],
    refresh: [a_refresh_finds_what_is_stale_mapped_otherwise_or_signalled],
    tombstone: [
        a_record_that_stays_away_is_gone_until_it_comes_back,
        what_is_only_refused_is_not_taken_for_gone,
        a_merged_record_points_to_the_one_in_its_place,
        a_page_signals_what_it_points_to_and_what_it_could_not_read,
        a_refresh_closes_the_signals_it_asks_for,
        a_policy_fills_in_or_maps_anew_and_keeps_the_content,
    ],
    schedule: [
        a_due_time_fires_once_whoever_looks,
        a_firing_is_left_to_the_next_when_its_planner_dies,
        the_oldest_firing_of_a_schedule_goes_first,
        a_schedule_whose_firings_pile_up_leaves_room_to_others,
        orders_are_audited_and_a_paused_schedule_does_not_fire,
        a_slice_is_cancelled_with_everything_below_it,
        a_priority_is_changed_for_what_is_open,
        holes_are_what_was_waived_or_failed_and_not_read_since,
    ],
    lease: [
        a_stale_lease_commits_nothing,
        an_expired_lease_commits_until_it_is_taken_over,
        a_takeover_goes_on_after_the_last_committed_page,
        a_takeover_closes_what_the_lost_run_left_open,
        leases_lost_without_progress_are_counted_and_progress_resets_them,
        leases_lost_before_the_page_was_asked_for_again_say_nothing_about_it,
        leases_lost_before_a_new_pass_do_not_count_against_its_first_page,
        a_task_is_leased_to_one_holder,
        tasks_are_claimed_by_priority_then_time_then_id,
        sources_take_turns_whatever_the_length_of_their_queues,
        a_full_partition_leaves_room_to_the_others,
        no_queued_task_is_taken_only_to_wait_at_the_gate,
        a_claim_for_one_operation_leaves_the_others,
        a_paused_source_is_not_claimed,
        a_plan_of_a_newer_format_is_not_claimed,
        waiting_does_not_count_as_a_failure,
        the_next_due_time_is_now_later_or_never,
        a_claim_that_dies_leaves_the_task_claimable,
        a_renewed_lease_ends_later_and_a_lost_one_is_refused,
        a_new_pass_begins_at_page_zero,
        a_finished_pass_is_handed_out_with_nothing_to_read,
        worker_slots_are_not_shared,
    ],
    plan: [
        a_second_trigger_meets_the_live_plan,
        the_same_trigger_published_twice_is_one_plan,
        a_plan_that_dies_half_way_leaves_nothing,
        an_empty_plan_completes_at_once,
        an_instance_keeps_its_remarks,
        a_plan_reads_back_with_its_spec,
        a_planning_view_shows_coverage_and_stock,
    ],
    partial: [
        a_plan_beyond_the_stock_is_partial_and_goes_on_as_the_queue_falls,
        what_has_no_task_is_owed_and_never_coverage,
        a_dispatch_that_dies_leaves_its_slices_waiting,
        two_who_dispatch_give_each_slice_one_task,
        what_is_open_is_reserved_of_the_budget_and_the_harvest_goes_first,
        what_waits_ends_with_its_plan_or_by_itself,
        a_hold_or_a_pause_keeps_the_rest_waiting,
    ],
    slice: [
        the_watermark_is_the_contiguous_prefix_in_every_order,
        a_failed_slice_stops_the_watermark_and_a_later_plan_moves_it_on,
        a_repeated_finish_says_what_happened_the_first_time,
        finishing_is_all_or_nothing_at_every_failpoint,
        the_last_slice_completes_the_plan_and_frees_the_namespace,
        a_slice_read_too_early_gives_credit_only_up_to_its_reading,
        a_waiver_moves_the_watermark_by_its_own_cause,
        operations_have_their_own_cursors,
        reconciling_changes_nothing_at_rest,
        a_shared_watermark_is_the_least_of_its_endpoints,
    ],
    split: [
        children_replace_their_parent,
        a_split_slice_is_covered_by_its_children_in_time,
        parts_cover_their_window_only_together,
        parts_split_further_cover_their_window,
        parts_of_a_plan_cover_their_window_only_together,
        a_proven_prefix_of_a_split_counts_at_once_and_is_not_read_again,
        parts_of_what_is_not_proven_cover_the_slice_with_its_prefix,
        a_slice_that_ends_without_proof_keeps_what_its_order_proves,
        children_that_do_not_tile_are_refused,
        a_split_that_fails_leaves_the_parent,
    ],
    operator: [
        after_a_cancel_nothing_of_the_task_commits,
        what_has_ended_is_not_cancelled,
        a_fatal_failure_stops_the_source_until_a_person_resumes_it,
        a_pause_holds_one_endpoint_or_all,
        a_cancel_that_fails_leaves_the_task,
        cancelling_a_plan_ends_everything_that_is_open_of_it,
        a_waiver_is_signed_and_moves_the_watermark_once,
        a_waiver_before_the_first_proof_begins_the_cursor,
        a_slot_is_renewed_by_its_owner_only,
        without_its_slot_a_process_writes_nothing,
    ],
    healing: [
        an_open_circuit_bars_every_claim_and_then_lets_one_probe,
        a_prober_of_which_nothing_is_heard_is_replaced,
        of_two_who_open_a_circuit_one_does,
        a_hold_ends_by_itself_and_a_raised_lag_is_for_one_plan,
        a_released_run_says_that_the_circuit_was_open,
        an_alarm_is_raised_once_told_once_and_cleared,
        facts_show_what_stands_and_what_waits,
        a_mended_record_is_stored_told_and_audited_once,
        a_discarded_record_is_given_up_with_a_reason,
    ],
    records: [
        near_equal_ids_stay_apart,
        the_greatest_version_of_a_page_is_kept,
        a_record_changed_twice_has_two_events_in_order,
        an_older_version_arriving_late_changes_nothing,
        any_order_of_versions_ends_the_same,
        many_records_are_stored_in_chunks,
    ],
    outbox: [
        events_are_handed_out_with_their_lineage_until_they_are_sent,
        versions_go_out_in_order_whatever_their_ids_say,
        an_event_that_appears_below_those_sent_is_not_skipped,
        a_shard_has_one_holder_and_a_lost_one_writes_nothing,
        a_parked_event_holds_back_its_own_record_only,
        sent_events_are_sent_again_on_demand_with_another_number,
        sent_rows_are_deleted_after_their_time_and_no_others,
        rows_of_an_older_release_are_told_in_order_too,
    ],
    registry: [
        a_new_version_ends_the_one_before,
        an_equal_definition_adds_no_version,
        another_channel_falls_back_to_stable,
        a_rollback_is_a_new_version,
        an_unknown_column_is_refused_and_nothing_is_left,
        dictionaries_are_only_added_to,
    ],
    schema: [every_database_has_the_same_tables_and_columns],
    inspect: [
        every_noun_lists_and_shows,
        a_row_is_found_by_the_beginning_of_its_id,
        the_summary_counts_each_source,
        a_quarantined_record_is_shown_masked_and_kept_as_it_came,
    ],
}

/// Behaviours of a place that several processes open.
macro_rules! every_shared_backend {
    ($($behaviours:tt)*) => {
        ledger_conformance!(shared_file, Place::File, { $($behaviours)* });
        ledger_conformance!(shared_postgres, Place::Postgres, { $($behaviours)* });
        ledger_conformance!(shared_mysql, Place::Mysql, { $($behaviours)* });
    };
}

every_shared_backend! {
    migrate: [
        a_build_works_on_a_schema_that_has_more_than_it_knows,
        a_migration_beside_a_running_process_does_not_stop_it,
        a_schema_that_needs_a_newer_build_is_refused,
        a_dry_run_says_what_a_run_does_and_changes_nothing,
        who_may_not_migrate_is_told_what_is_missing,
        the_table_of_migrations_of_the_first_releases_is_kept,
        what_is_opened_for_reading_is_not_written,
    ],
}

ledger_conformance!(plans, Place::File, { hot: [every_hot_statement_uses_its_index] });
