//! Shell completions and man pages.

use std::path::Path;

use clap::CommandFactory;

use crate::cli::Cli;
use crate::failure::Failure;

pub fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    clap_complete::generate(shell, &mut Cli::command(), "patra", &mut std::io::stdout());
    Ok(())
}

pub fn man(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)?;
    clap_mangen::generate_to(Cli::command(), folder)?;
    println!("man pages written to {}", folder.display());
    Ok(())
}
