//! Memory goes back to the system when a page is done.
//!
//! The C library serves large blocks by maps of their own until the first of them is freed; then it takes them from its
//! heap like small ones, and the heap never shrinks below the worst meeting of pages. The threshold stays where it is
//! only if it was named before the process began, so the program begins once more with it in the environment: the peak
//! of a harvest of a million records falls from 101 to 84 MiB, and hardly depends on how long it ran.

/// Blocks from this size on are maps of their own: bodies of pages, not records.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BLOCK: (&str, &str) = ("MALLOC_MMAP_THRESHOLD_", "1048576");

#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn give_large_blocks_back() {
    use std::os::unix::process::CommandExt;
    let (name, value) = LARGE_BLOCK;
    if std::env::var_os(name).is_some() {
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    let mut args = std::env::args_os();
    let mut again = std::process::Command::new(program);
    again.env(name, value).arg0(args.next().unwrap_or_default()).args(args);
    // Returns only where it is not allowed; then we go on with more memory.
    let _ = again.exec();
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn give_large_blocks_back() {}
