//! Series of preferred numbers that `$bucketAuto` rounds its boundaries to.

/// The Renard series, each within one power of ten.
const R5: &[f64] = &[10., 16., 25., 40., 63.];
const R10: &[f64] = &[100., 125., 160., 200., 250., 315., 400., 500., 630., 800.];
const R20: &[f64] = &[
    100., 112., 125., 140., 160., 180., 200., 224., 250., 280., 315., 355., 400., 450., 500., 560., 630.,
    710., 800., 900.,
];
const R40: &[f64] = &[
    100., 106., 112., 118., 125., 132., 140., 150., 160., 170., 180., 190., 200., 212., 224., 236., 250.,
    265., 280., 300., 315., 335., 355., 375., 400., 425., 450., 475., 500., 530., 560., 600., 630., 670.,
    710., 750., 800., 850., 900., 950.,
];
const R80: &[f64] = &[
    103., 109., 115., 122., 128., 136., 145., 155., 165., 175., 185., 195., 206., 218., 230., 243., 258.,
    272., 290., 307., 325., 345., 365., 387., 412., 437., 462., 487., 515., 545., 575., 615., 650., 690.,
    730., 775., 825., 875., 925., 975.,
];
const ONE_TWO_FIVE: &[f64] = &[10., 20., 50.];
const E6: &[f64] = &[10., 15., 22., 33., 47., 68.];
const E12: &[f64] = &[10., 12., 15., 18., 22., 27., 33., 39., 47., 56., 68., 82.];
const E24: &[f64] = &[
    10., 11., 12., 13., 15., 16., 18., 20., 22., 24., 27., 30., 33., 36., 39., 43., 47., 51., 56., 62., 68.,
    75., 82., 91.,
];

/// A rounding rule.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Granularity {
    /// Rounds to the numbers of a series, multiplied by any power of ten.
    Series(Vec<f64>),
    /// Rounds to powers of two.
    PowersOfTwo,
}

impl Granularity {
    /// The granularity for a name.
    pub fn parse(name: &str) -> Option<Granularity> {
        let listed = |series: &[f64]| Granularity::Series(series.to_vec());
        Some(match name {
            "R5" => listed(R5),
            "R10" => listed(R10),
            "R20" => listed(R20),
            "R40" => listed(R40),
            "R80" => {
                let mut series = [R40, R80].concat();
                series.sort_by(f64::total_cmp);
                Granularity::Series(series)
            }
            "1-2-5" => listed(ONE_TWO_FIVE),
            "E6" => listed(E6),
            "E12" => listed(E12),
            "E24" => listed(E24),
            "E48" => Granularity::Series(geometric(48)),
            "E96" => Granularity::Series(geometric(96)),
            "E192" => Granularity::Series(geometric(192)),
            "POWERSOF2" => Granularity::PowersOfTwo,
            _ => return None,
        })
    }

    /// The smallest number of the granularity above `number`, which is not negative. 0 is returned unchanged.
    pub fn round_up(&self, number: f64) -> f64 {
        if number == 0.0 || !number.is_finite() {
            return number;
        }
        match self {
            Granularity::PowersOfTwo => (number.log2().floor() + 1.0).exp2(),
            Granularity::Series(series) => {
                let scale = scale(series, number);
                let above = series.iter().map(|step| step * scale).find(|step| *step > number);
                above.unwrap_or(series[0] * scale * 10.0)
            }
        }
    }

    /// The greatest number of the granularity below `number`, which is not negative. 0 is returned unchanged.
    pub fn round_down(&self, number: f64) -> f64 {
        if number == 0.0 || !number.is_finite() {
            return number;
        }
        match self {
            Granularity::PowersOfTwo => (number.log2().ceil() - 1.0).exp2(),
            Granularity::Series(series) => {
                let scale = scale(series, number);
                let below = series.iter().rev().map(|step| step * scale).find(|step| *step < number);
                below.unwrap_or(series[series.len() - 1] * scale / 10.0)
            }
        }
    }
}

/// The E series of `steps` numbers to three digits: the rounded geometric series, except for the one number where the
/// standard differs.
fn geometric(steps: u32) -> Vec<f64> {
    (0..steps)
        .map(|step| {
            let number = (100.0 * 10f64.powf(f64::from(step) / f64::from(steps))).round();
            if number == 919.0 { 920.0 } else { number }
        })
        .collect()
}

/// The power of ten that scales the series to the range of `number`.
fn scale(series: &[f64], number: f64) -> f64 {
    let mut scale = 10f64.powf((number / series[0]).log10().floor());
    // The logarithm may be off by one at the limits.
    while series[0] * scale > number {
        scale /= 10.0;
    }
    while series[0] * scale * 10.0 <= number {
        scale *= 10.0;
    }
    scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_moves_strictly_up_and_down() {
        let cases = [
            ("R5", 10.0, 16.0, 6.3),
            ("R5", 11.0, 16.0, 10.0),
            ("R5", 70.0, 100.0, 63.0),
            ("1-2-5", 0.3, 0.5, 0.2),
            ("E24", 95.0, 100.0, 91.0),
            ("E192", 919.5, 920.0, 909.0),
            ("R80", 102.0, 103.0, 100.0),
            ("POWERSOF2", 8.0, 16.0, 4.0),
            ("POWERSOF2", 9.0, 16.0, 8.0),
            ("POWERSOF2", 0.0, 0.0, 0.0),
        ];
        for (name, number, up, down) in cases {
            let granularity = Granularity::parse(name).unwrap();
            assert!((granularity.round_up(number) - up).abs() < 1e-9, "{name} {number} up");
            assert!((granularity.round_down(number) - down).abs() < 1e-9, "{name} {number} down");
        }
        assert_eq!(Granularity::parse("R6"), None);
    }

    #[test]
    fn computed_series_match_the_standard() {
        let Some(Granularity::Series(series)) = Granularity::parse("E48") else { panic!("a series") };
        assert_eq!(series[..6], [100., 105., 110., 115., 121., 127.]);
        assert_eq!(series[42..], [750., 787., 825., 866., 909., 953.]);
    }
}
