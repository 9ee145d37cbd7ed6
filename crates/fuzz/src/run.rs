//! The loop: take an input, change it, run it, keep it where it comes to a new end, save it where it breaks a law.

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::corpus::{FAMILIES, SLOW, cases_of, judge};
use crate::mutate::{Random, mutate};
use crate::{checks, meter, seeds};

/// Most memory of the whole process.
const PEAK_BYTES_MAX: u64 = 256 << 20;
/// An input that takes longer, on a machine that may be busy, ends the process.
const HANG: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_secs(1);
/// Inputs kept for mutation.
const KEPT_MAX: usize = 20_000;
/// Different findings of one run that are saved.
const FOUND_MAX: usize = 50;

pub struct Options {
    pub time: Duration,
    pub runs: u64,
    pub seed: u64,
    /// Saves each input before it runs, to find one that ends the process.
    pub trace: bool,
}

/// What the watching thread sees.
#[derive(Default)]
struct Watched {
    run: AtomicU64,
    input: Mutex<Vec<u8>>,
}

pub fn fuzz(name: &str, options: &Options) -> ExitCode {
    quiet();
    let watched = Arc::new(Watched::default());
    watch(name, &watched);
    let words = &seeds::words(name);
    let mut pool = seeds::inputs(name);
    pool.push(Vec::new());
    let (mut ends, mut found) = (HashSet::new(), HashSet::new());
    let mut random = Random::new(options.seed);
    let (mut runs, mut slowest, mut slow) = (0u64, Duration::ZERO, 0u64);
    let first = pool.len() as u64;
    let started = meter::Computed::start();
    let mut shown = Instant::now();
    while runs < options.runs && (runs % 64 != 0 || started.elapsed() < options.time) {
        // The seeds themselves first, then changes of them.
        let input = match usize::try_from(runs) {
            Ok(at) if runs < first => pool[at].clone(),
            _ => {
                let (one, other) = (random.below(pool.len()), random.below(pool.len()));
                mutate(&mut random, &pool[one], &pool[other], words)
            }
        };
        watched.input.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&input);
        watched.run.store(runs + 1, Ordering::Release);
        if options.trace {
            save(name, "last", &input);
        }
        let began = Instant::now();
        let result = std::panic::catch_unwind(|| checks::check(name, &input));
        let mut took = began.elapsed();
        runs += 1;
        if took > SLOW {
            took = again(name, &input);
        }
        if took > SLOW {
            slow += 1;
            report(name, &format!("took {took:?}"), &input, &mut found, "slow");
        }
        slowest = slowest.max(took);
        match result {
            Err(panic) => report(name, &format!("panicked: {}", panic_text(&*panic)), &input, &mut found, "panic"),
            Ok(Err(law)) => report(name, &law, &input, &mut found, "law"),
            Ok(Ok(end)) => {
                if ends.insert(end) && pool.len() < KEPT_MAX && runs > first {
                    pool.push(input);
                }
            }
        }
        if shown.elapsed() > Duration::from_secs(60) {
            shown = Instant::now();
            println!("{name}: {runs} runs, {} ends, {} found", ends.len(), found.len());
        }
    }
    watched.run.store(0, Ordering::Release);
    let (seconds, peak) = (started.elapsed().as_secs_f64(), meter::peak_bytes());
    println!(
        "{name}: {runs} runs in {seconds:.0} CPU s, seed {}, {} inputs kept, {} ends, slowest {slowest:?}, peak {} MB, {} found, {slow} slow",
        options.seed,
        pool.len(),
        ends.len(),
        peak >> 20,
        found.len()
    );
    let clean = found.is_empty() && peak <= PEAK_BYTES_MAX;
    if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What the input takes to compute: a busy machine makes any input look slow.
fn again(name: &str, input: &[u8]) -> Duration {
    let computed = meter::Computed::start();
    // How it ends was seen already; only the time counts here.
    let _ = std::panic::catch_unwind(|| checks::check(name, input));
    computed.elapsed()
}

/// Ends the process when an input does not come back.
fn watch(name: &str, watched: &Arc<Watched>) {
    let (name, watched) = (name.to_owned(), watched.clone());
    std::thread::spawn(move || {
        // Counted in looks, not read from a clock: a process that was stopped for a while does not hang.
        let (mut run, mut looks) = (0, 0);
        loop {
            std::thread::sleep(LOOK);
            let now = watched.run.load(Ordering::Acquire);
            looks = if now == run { looks + 1 } else { 0 };
            run = now;
            if now != 0 && LOOK * looks > HANG {
                let input = watched.input.lock().unwrap_or_else(PoisonError::into_inner);
                let path = save(&name, "hang", &input);
                eprintln!("{name}: run {run} does not end, see {}", path.display());
                std::process::exit(3);
            }
        }
    });
}

fn quiet() {
    std::panic::set_hook(Box::new(|_| {}));
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

/// Saves and shows a finding, the first of its kind only.
fn report(name: &str, message: &str, input: &[u8], found: &mut HashSet<String>, kind: &str) {
    let bare: String = message.chars().take(40).filter(|letter| letter.is_alphabetic()).collect();
    if found.len() >= FOUND_MAX || !found.insert(format!("{kind} {bare}")) {
        return;
    }
    let path = save(name, &format!("{kind}-{:016x}", digest(input)), input);
    let hex: String = input.iter().take(200).map(|byte| format!("{byte:02x}")).collect();
    println!("{name}: {kind}: {message}\n  text: {:?}\n  hex: {hex}\n  saved: {}", shown(input), path.display());
}

fn shown(input: &[u8]) -> String {
    String::from_utf8_lossy(input).chars().take(300).collect()
}

fn digest(input: &[u8]) -> u64 {
    input.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

fn save(name: &str, called: &str, input: &[u8]) -> PathBuf {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/found"));
    let path = folder.join(format!("{name}-{called}"));
    if let Err(error) = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, input)) {
        eprintln!("cannot save {}: {error}", path.display());
    }
    path
}

pub fn replay(name: &str, file: &str) -> ExitCode {
    let input = match std::fs::read(file) {
        Ok(input) => input,
        Err(error) => {
            eprintln!("{file}: {error}");
            return ExitCode::from(2);
        }
    };
    let began = Instant::now();
    let result = checks::check(name, &input);
    println!("{name}: {result:?} after {:?}, peak {} MB", began.elapsed(), meter::peak_bytes() >> 20);
    if result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the cases of the corpus with limits on time and memory.
pub fn corpus() -> ExitCode {
    quiet();
    let (mut count, mut wrong) = (0, 0);
    for (family, build) in FAMILIES {
        let cases = cases_of(family, build);
        let (mut slowest, mut longest, mut largest) = (Duration::ZERO, String::new(), 0);
        for case in &cases {
            meter::reset_peak();
            let before = meter::peak_bytes();
            let (took, result) = judge(case);
            let grown = meter::peak_bytes().saturating_sub(before);
            largest = largest.max(grown);
            if took > slowest {
                (slowest, longest) = (took, case.name.clone());
            }
            let mut complain = |text: String| {
                wrong += 1;
                println!("{text}");
            };
            if let Err(failure) = result {
                complain(failure);
            }
            if took > SLOW {
                complain(format!("{family}/{}: took {took:?}", case.name));
            }
            if grown > PEAK_BYTES_MAX {
                complain(format!("{family}/{}: took {} MB", case.name, grown >> 20));
            }
        }
        println!(
            "{family}: {} cases, slowest {slowest:?} ({longest}), at most {} MB for one",
            cases.len(),
            largest >> 20
        );
        count += cases.len();
    }
    println!("{count} cases, {wrong} wrong");
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
