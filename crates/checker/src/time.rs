//! Instants as microseconds since 1970, and which of them a source can name as an edge.

use jiff::Timestamp;
use jiff::tz::TimeZone;

const DAY_US: i64 = 86_400_000_000;

/// Reads a time column.
pub fn instant(text: &str) -> Option<i64> {
    text.parse::<Timestamp>().ok().map(Timestamp::as_microsecond)
}

/// For messages.
pub fn shown(micros: i64) -> String {
    Timestamp::from_microsecond(micros).map_or_else(|_| micros.to_string(), |instant| instant.to_string())
}

/// `[from, to)` for messages.
pub fn shown_span(from: i64, to: i64) -> String {
    format!("[{}, {})", shown(from), shown(to))
}

/// The calendar a source cuts its windows by.
pub struct Grain {
    grain_us: i64,
    zone: TimeZone,
}

impl Grain {
    /// An unknown zone counts as UTC and is named in the error.
    pub fn new(grain_us: i64, zone: &str) -> Result<Grain, Grain> {
        match TimeZone::get(zone) {
            Ok(zone) => Ok(Grain { grain_us, zone }),
            Err(_) => Err(Grain { grain_us, zone: TimeZone::UTC }),
        }
    }

    /// True when a slice may begin or end here.
    pub fn is_edge(&self, micros: i64) -> bool {
        if self.grain_us <= 1 {
            return true;
        }
        if self.grain_us % DAY_US != 0 {
            return micros.rem_euclid(self.grain_us) == 0;
        }
        let Ok(instant) = Timestamp::from_microsecond(micros) else { return false };
        let local = instant.to_zoned(self.zone.clone());
        let Ok(midnight) = local.start_of_day() else { return false };
        if midnight.timestamp() != instant {
            return false;
        }
        // Days in a row are counted on the calendar, because a day of a zone may have 23 or 25 hours.
        let days = local.date().to_zoned(TimeZone::UTC).map(|day| day.timestamp().as_microsecond() / DAY_US);
        days.is_ok_and(|days| days.rem_euclid(self.grain_us / DAY_US) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_in_the_zone_of_the_source_also_when_clocks_change() {
        let grain = Grain::new(DAY_US, "America/New_York").ok().unwrap();
        for (text, edge) in [
            ("2026-01-02T05:00:00Z", true),
            ("2026-01-02T00:00:00Z", false),
            ("2026-07-02T04:00:00Z", true),
            ("2026-07-02T05:00:00Z", false),
            ("2026-03-09T04:00:00Z", true),
        ] {
            assert_eq!(grain.is_edge(instant(text).unwrap()), edge, "{text}");
        }
    }

    #[test]
    fn seconds_are_edges_only_when_whole() {
        let grain = Grain::new(1_000_000, "UTC").ok().unwrap();
        assert!(grain.is_edge(-3_000_000) && !grain.is_edge(1_500_000));
        assert!(Grain::new(1, "UTC").ok().unwrap().is_edge(7));
        assert!(Grain::new(1, "Nowhere/At_All").is_err());
    }
}
