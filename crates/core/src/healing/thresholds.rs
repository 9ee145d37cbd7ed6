//! The thresholds of self-healing and alarms: settings with the defaults of the specification.

use crate::time::Span;

/// One table: the field, its key on the command line, its default and what it means. The documents show the same.
macro_rules! thresholds {
    ($($(#[$doc:meta])* $name:ident: $kind:ident = $default:expr),* $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Thresholds {
            $($(#[$doc])* pub $name: $kind,)*
        }

        impl Default for Thresholds {
            fn default() -> Thresholds {
                Thresholds { $($name: $default,)* }
            }
        }

        impl Thresholds {
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// Sets one by its name.
            pub fn set(&mut self, name: &str, text: &str) -> Result<(), UnknownThreshold> {
                let wrong = |_| UnknownThreshold::Value { name: name.to_owned(), text: text.to_owned() };
                match name {
                    $(stringify!($name) => self.$name = text.parse::<$kind>().map_err(|_| wrong(()))?,)*
                    _ => return Err(UnknownThreshold::Name { name: name.to_owned() }),
                }
                Ok(())
            }

            /// Every threshold with its value, as it would be set.
            pub fn shown(&self) -> Vec<(&'static str, String)> {
                vec![$((stringify!($name), self.$name.to_string())),*]
            }
        }
    };
}

thresholds! {
    /// Failures in a row that open the circuit.
    circuit_failures: u32 = 3,
    /// An open circuit lets nobody ask for at least so long,
    circuit_open_min: Span = Span::from_seconds(60),
    /// and at most so long; in between by chance.
    circuit_open_max: Span = Span::from_seconds(120),
    /// Share of requests answered with 429 in five minutes above which the rate counts as too high.
    throttled_percent: u32 = 5,
    /// Share of failed requests in five minutes above which fewer tasks run at a time.
    error_percent: u32 = 2,
    /// Mean time of a request above which fewer tasks run at a time and pages are smaller.
    batch_latency: Span = Span::from_seconds(3),
    /// Mean time of a commit above which fewer tasks run at a time.
    database_latency: Span = Span::from_millis(200),
    /// Share of the ids of a task that the source may refuse before the task stops.
    denied_percent: u32 = 10,
    /// But not before so many were refused.
    denied_min: u32 = 20,
    /// Share of failed requests that holds planning and raises an alarm when it lasts.
    alarm_error_percent: u32 = 5,
    /// How long 429, errors, slow answers or slow commits last before planning is held,
    hold_after: Span = Span::from_seconds(600),
    /// and for how long.
    hold_for: Span = Span::from_seconds(600),
    /// A slice with a larger answer is cut while much of it is left,
    reslice_bytes: u32 = 5_000_000,
    /// and so is one that has been read for longer than this.
    reslice_after: Span = Span::from_seconds(1800),
    /// How often alarms are looked for.
    alarm_every: Span = Span::from_seconds(30),
    /// A watermark that stands for so long is stalled; at least three times the interval of planning.
    stall_after: Span = Span::from_seconds(1800),
    /// Queued tasks of a source, endpoint and operation at which its plans get no more of them for now.
    stock_max: u32 = 10_000,
    /// Queued tasks of a source, endpoint and operation above which there is an alarm.
    queued_max: u32 = 50_000,
    /// What is due for so long and not taken up raises an alarm.
    idle_after: Span = Span::from_seconds(1800),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownThreshold {
    #[error("there is no threshold `{name}`; known are {}", Thresholds::NAMES.join(", "))]
    Name { name: String },
    #[error("`{text}` is no value for the threshold `{name}`")]
    Value { name: String, text: String },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_threshold_is_set_by_what_it_is_shown_as() {
        let usual = Thresholds::default();
        let mut set = usual;
        for (name, text) in usual.shown() {
            set.set(name, &text).unwrap();
        }
        assert_eq!(set, usual);
        set.set("circuit_open_min", "PT5S").unwrap();
        assert_eq!(set.circuit_open_min, Span::from_seconds(5));
    }

    #[test]
    fn a_slip_of_the_pen_is_refused() {
        let mut set = Thresholds::default();
        assert!(matches!(set.set("circuit", "1"), Err(UnknownThreshold::Name { .. })));
        assert!(matches!(set.set("circuit_failures", "many"), Err(UnknownThreshold::Value { .. })));
    }
}
