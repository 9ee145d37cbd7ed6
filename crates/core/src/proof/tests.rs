use super::*;
use crate::proof::judge::PROVEN;

const LAG: Span = Span::from_seconds(10);

fn at(second: i64) -> Timestamp {
    Timestamp::from_seconds(second)
}

fn window(from: i64, to: i64) -> Window {
    Window::new(at(from), at(to)).unwrap()
}

fn terms() -> Terms {
    Terms { settling_lag: LAG, total_tolerance: 0.0 }
}

/// A slice that was read long after it had settled.
fn read(id: i64, from: i64, to: i64) -> Leaf {
    Leaf {
        slice: Id(id),
        plan: Id(1),
        parent: None,
        window: window(from, to),
        part: None,
        state: SliceState::Succeeded,
        reason: None,
        read_at: Some(at(10_000)),
        total: Some(5),
        distinct: Some(5),
        passes: 1,
        counts: Counts { fetched: 5, inserted: 5, ..Counts::default() },
        missing: 0,
        unsettled: 0,
        recount: None,
    }
}

fn ended(id: i64, from: i64, to: i64, state: SliceState, reason: &str) -> Leaf {
    Leaf { state, reason: Some(reason.into()), read_at: None, ..read(id, from, to) }
}

fn judged(leaves: Vec<Leaf>, waivers: Vec<Waiver>) -> Judgement {
    judge(window(0, 100), &Evidence { leaves, waivers, asked_again: 0 }, terms())
}

fn told(judgement: &Judgement) -> Vec<(i64, i64, &str)> {
    let seconds = |time: Timestamp| time.micros() / 1_000_000;
    let stretches = judgement.coverage.iter();
    stretches.map(|one| (seconds(one.window.from()), seconds(one.window.to()), one.status.as_str())).collect()
}

#[test]
fn a_window_is_complete_when_every_moment_was_read_after_it_had_settled() {
    use SliceState as S;
    let part = |id: i64, part: &str, state| Leaf { part: Some(part.into()), state, ..read(id, 50, 100) };
    let below = |leaf: Leaf| Leaf { parent: Some(Id(9)), ..leaf };
    let early = Leaf { read_at: Some(at(90)), ..read(2, 50, 100) };
    type Told = Vec<(i64, i64, &'static str)>;
    let cases: Vec<(Vec<Leaf>, Told)> = vec![
        (vec![read(1, 0, 50), read(2, 50, 100)], vec![(0, 100, PROVEN)]),
        (vec![read(1, 0, 50)], vec![(0, 50, PROVEN), (50, 100, "NOT_READ")]),
        (
            vec![read(1, 0, 50), ended(2, 50, 80, S::Failed, "HTTP_500"), ended(3, 80, 100, S::Executing, "")],
            vec![(0, 50, PROVEN), (50, 80, "FAILED"), (80, 100, "OPEN")],
        ),
        // Read again since: the failure is history.
        (vec![read(1, 0, 50), ended(2, 50, 100, S::Failed, "HTTP_500"), read(3, 50, 100)], vec![(0, 100, PROVEN)]),
        // Ten seconds of lag before the reading at 90.
        (vec![read(1, 0, 50), early], vec![(0, 80, PROVEN), (80, 100, "UNSETTLED")]),
        // Parts of a plan count together only; below a parent they count through it.
        (vec![read(1, 0, 50), part(2, "a", S::Succeeded), part(3, "b", S::Succeeded)], vec![(0, 100, PROVEN)]),
        (
            vec![read(1, 0, 50), part(2, "a", S::Succeeded), part(3, "b", S::Failed)],
            vec![(0, 50, PROVEN), (50, 100, "FAILED")],
        ),
        (
            vec![read(1, 0, 50), below(part(2, "a", S::Succeeded)), below(part(3, "b", S::Succeeded))],
            vec![(0, 50, PROVEN), (50, 100, "NOT_READ")],
        ),
        (
            vec![read(1, 0, 50), below(part(2, "a", S::Succeeded)), Leaf { state: S::Split, ..read(9, 50, 100) }],
            vec![(0, 100, PROVEN)],
        ),
    ];
    for (leaves, want) in cases {
        let judgement = judged(leaves.clone(), Vec::new());
        assert_eq!(told(&judgement), want, "{leaves:?}");
        assert_eq!(judgement.verdict == Verdict::Complete, want.len() == 1, "{:?}", judgement.reasons);
    }
}

#[test]
fn a_waived_window_is_a_hole_with_a_name() {
    let waiver = Waiver { id: Id(7), window: window(40, 60), actor: "ada".into(), reason: "gone for good".into() };
    let failed = ended(2, 50, 60, SliceState::Failed, "OVERFLOW");
    let judgement = judged(vec![read(1, 0, 50), failed, read(3, 60, 100)], vec![waiver]);
    assert_eq!(told(&judgement), [(0, 50, PROVEN), (50, 60, "WAIVED"), (60, 100, PROVEN)]);
    assert_eq!(judgement.verdict, Verdict::Incomplete);
    assert!(judgement.reasons[0].contains("gone for good by ada"), "{:?}", judgement.reasons);
}

#[test]
fn what_is_lacking_inside_a_window_that_was_read_is_said() {
    let whole = || read(1, 0, 100);
    let cases = [
        (Leaf { unsettled: 2, ..whole() }, Some("2 records")),
        (Leaf { missing: 3, ..whole() }, Some("3 ids")),
        (Leaf { recount: Some(6), ..whole() }, Some("holds 6 now")),
        // Records leave a window when they change; that is no loss.
        (Leaf { recount: Some(4), ..whole() }, None),
        // An earlier reading of the same window says nothing any more.
        (Leaf { slice: Id(0), read_at: Some(at(9_000)), unsettled: 2, ..whole() }, None),
    ];
    for (leaf, want) in cases {
        let judgement = judged(vec![leaf.clone(), whole()].into_iter().rev().collect(), Vec::new());
        let alone = judged(vec![leaf.clone()], Vec::new());
        let looked_at = if leaf.slice == Id(0) { judgement } else { alone };
        assert_eq!(looked_at.reasons.len(), usize::from(want.is_some()), "{leaf:?}");
        assert!(want.is_none_or(|want| looked_at.reasons[0].contains(want)), "{:?}", looked_at.reasons);
    }
    let lenient = Terms { total_tolerance: 0.5, ..terms() };
    let evidence = Evidence { leaves: vec![Leaf { recount: Some(7), ..whole() }], waivers: Vec::new(), asked_again: 0 };
    let judgement = judge(window(0, 100), &evidence, lenient);
    assert_eq!((judgement.verdict, judgement.within), (Verdict::Complete, 2));
}

fn certificate() -> Certificate {
    let evidence = Evidence { leaves: vec![read(1, 0, 50), read(2, 50, 100)], waivers: Vec::new(), asked_again: 0 };
    let subject = Subject {
        source: "crossref".into(),
        endpoint: "works".into(),
        entity: "works".into(),
        operation: "HARVEST".into(),
        query: None,
        namespace: Hash32::of(b"n"),
        window: window(0, 100),
        terms: terms(),
    };
    let digests =
        Digests { slices: [(Id(1), Hash32::of(b"1")), (Id(2), Hash32::of(b"2"))].into(), waivers: BTreeMap::new() };
    let columns = [("ing_plan_slice".to_owned(), vec!["id".to_owned()])].into();
    Certificate::new(subject, evidence, Basis::new(columns, digests), at(20_000), Some(at(100)))
}

#[test]
fn a_certificate_reads_back_and_every_change_of_its_text_is_found() {
    let made = certificate();
    let text = serde_json::to_string(&made).unwrap();
    let read: Certificate = serde_json::from_str(&text).unwrap();
    assert_eq!((&read, read.flaws()), (&made, Vec::new()));
    for (old, new) in [
        ("\"inserted\":5", "\"inserted\":6"),
        ("\"COMPLETE\"", "\"INCOMPLETE\""),
        ("\"crossref\"", "\"crossreg\""),
        ("PROVEN", "WAIVED"),
    ] {
        let forged: Certificate = serde_json::from_str(&text.replacen(old, new, 1)).unwrap();
        assert!(!forged.flaws().is_empty(), "{old} -> {new}");
    }
}

#[test]
fn rows_that_changed_or_went_away_are_named_by_their_window() {
    let made = certificate();
    let mut now = made.basis.digests.clone();
    assert_eq!(made.flaws_against(&now), Vec::new());
    now.slices.insert(Id(2), Hash32::of(b"x"));
    let flaws = made.flaws_against(&now);
    assert_eq!((flaws.len(), flaws[0].slice, flaws[0].window), (1, Some(Id(2)), Some(window(50, 100))));
    now.slices.clear();
    assert_eq!(made.flaws_against(&now).len(), 2);
}
