//! Sizes and times in settings, written with units.

use serde::Deserialize;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A number of bytes, written with or without a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            _ => return Err("a size is a number and B, KB, MB, GB, KiB, MiB or GiB".to_owned()),
        };
        let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
        bytes.map(Size).ok_or_else(|| "a size begins with a number that fits".to_owned())
    }
}

impl fmt::Display for Size {
    /// Rounded, with the unit in which it is a number below 1000.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
        let mut size = self.0 as f64;
        let mut unit = "B";
        for greater in UNITS {
            // What would be rounded to 1000.
            if size < 999.5 {
                break;
            }
            size /= 1000.0;
            unit = greater;
        }
        let digits = usize::from(size < 9.95 && unit != "B");
        write!(f, "{size:.digits$} {unit}")
    }
}

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Size, String> {
        text.parse()
    }
}

/// A span of time, written with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Period(pub Duration);

impl FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Period, String> {
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let seconds: u64 = match unit.trim() {
            "s" => 1,
            "m" => 60,
            "h" => 3_600,
            "d" => 86_400,
            _ => return Err("a time is a number and s, m, h or d".to_owned()),
        };
        let seconds = number.parse::<u32>().ok().map(|number| u64::from(number) * seconds);
        let period =
            seconds.filter(|seconds| *seconds > 0).map(|seconds| Period(Duration::from_secs(seconds)));
        period.ok_or_else(|| "a time begins with a number from 1 to 4294967295".to_owned())
    }
}

impl TryFrom<String> for Period {
    type Error = String;

    fn try_from(text: String) -> Result<Period, String> {
        text.parse()
    }
}

/// `--cache-size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum CacheSize {
    /// As much as suits the machine.
    Auto,
    /// So many bytes.
    Bytes(u64),
}

/// The least that the cache has by itself.
const LEAST_CACHE: u64 = 64 << 20;

impl CacheSize {
    /// The bytes, where the process may use so much memory.
    pub fn bytes(self, usable: impl FnOnce() -> u64) -> u64 {
        match self {
            CacheSize::Auto => (usable() / 4).max(LEAST_CACHE),
            CacheSize::Bytes(bytes) => bytes,
        }
    }
}

impl FromStr for CacheSize {
    type Err = String;

    fn from_str(text: &str) -> Result<CacheSize, String> {
        if text == "auto" {
            return Ok(CacheSize::Auto);
        }
        let size: Size = text.parse().map_err(|error| format!("{error}, or \"auto\""))?;
        Ok(CacheSize::Bytes(size.0))
    }
}

impl TryFrom<String> for CacheSize {
    type Error = String;

    fn try_from(text: String) -> Result<CacheSize, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_parses_numbers_with_units() {
        let size = |text: &str| text.parse::<Size>().map(|size| size.0);
        assert_eq!(size("512MiB"), Ok(512 << 20));
        assert_eq!(size("2 GB"), Ok(2_000_000_000));
        assert_eq!(size("4096"), Ok(4096));
        assert!(size("many").is_err() && size("5 parsecs").is_err() && size("99999999999999999999").is_err());
    }

    #[test]
    fn size_shows_few_digits_and_a_unit() {
        for (bytes, shown) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (9_949, "9.9 kB"),
            (9_951, "10 kB"),
            (999_499, "999 kB"),
            (999_500, "1.0 MB"),
            (1_234_567_890, "1.2 GB"),
            (5_000_000_000_000_000, "5000 TB"),
        ] {
            assert_eq!(Size(bytes).to_string(), shown);
        }
    }

    #[test]
    fn period_parses_numbers_with_units() {
        let period = |text: &str| text.parse::<Period>().map(|period| period.0.as_secs());
        assert_eq!((period("90m"), period("24h"), period("7d")), (Ok(5_400), Ok(86_400), Ok(604_800)));
        assert!(period("0h").is_err() && period("24").is_err() && period("5000000000s").is_err());
    }

    #[test]
    fn auto_cache_size_is_a_quarter_of_the_memory() {
        let bytes = |text: &str, usable| text.parse::<CacheSize>().unwrap().bytes(|| usable);
        assert_eq!(bytes("auto", 8 << 30), 2 << 30);
        assert_eq!(bytes("auto", 100 << 20), 64 << 20);
        assert_eq!(bytes("16MiB", 8 << 30), 16 << 20);
        assert!("most".parse::<CacheSize>().is_err());
    }
}
