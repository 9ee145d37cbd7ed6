//! The simulator seen from outside: every provider walked by a plain reader and compared with the truth by brute force.

#[cfg(test)]
mod behaviour;
#[cfg(test)]
mod document;
#[cfg(test)]
mod oai_servers;
#[cfg(test)]
mod port;
#[cfg(test)]
mod reader;
#[cfg(test)]
mod windows;
#[cfg(test)]
mod worlds;
