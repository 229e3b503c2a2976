//! Numbers from text.

/// The integer that a decimal text denotes, also one with a fraction of zeros or an exponent (`5.0`, `12e2`). `None` when it is no integer, does not fit
/// 64 bits, or is no number: nothing is rounded, so integers above 2^53 are exact in any of the forms.
pub fn integer(text: &str) -> Option<i64> {
    if let Ok(value) = text.parse() {
        return Some(value);
    }
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (negative, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let significant = digits.trim_end_matches('0');
    let zeros = i64::try_from(digits.len() - significant.len()).ok()? - i64::try_from(fraction.len()).ok()? + i64::from(exponent);
    let significant = significant.trim_start_matches('0');
    if significant.is_empty() {
        return Some(0);
    }
    // 64 bits have at most 19 digits.
    let zeros = u32::try_from(zeros).ok().filter(|zeros| significant.len() + *zeros as usize <= 19)?;
    let value = significant.parse::<i128>().ok()? * 10_i128.pow(zeros);
    i64::try_from(if negative { -value } else { value }).ok()
}

/// The floating-point number next to what a decimal text denotes. `None` when it is no number, too large, or one of the words that are no numbers (`NaN`, `inf`).
pub fn float(text: &str) -> Option<f64> {
    if !text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E')) {
        return None;
    }
    text.parse::<f64>().ok().filter(|value| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_exact_in_every_form() {
        for (text, value) in [
            ("0", 0),
            ("-0", 0),
            ("-0.0", 0),
            ("+7", 7),
            ("5.0", 5),
            ("12e2", 1200),
            ("1.5E1", 15),
            ("1200e-2", 12),
            ("0e99", 0),
            ("9007199254740993", 9_007_199_254_740_993),
            ("9007199254740993.0", 9_007_199_254_740_993),
            ("9.007199254740993e15", 9_007_199_254_740_993),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
            ("-9223372036854775808.0", i64::MIN),
        ] {
            assert_eq!(integer(text), Some(value), "{text}");
        }
    }

    #[test]
    fn what_is_no_integer_of_64_bits_is_refused() {
        let refused = [
            "",
            "-",
            ".",
            "e5",
            "1.5",
            "1e-1",
            "9223372036854775808",
            "9223372036854775808.0",
            "1e19",
            "1e999999999",
            "1e99999999999",
            "0x10",
            " 1",
            "1 ",
            "1_0",
            "--1",
            "NaN",
        ];
        for text in refused {
            assert_eq!(integer(text), None, "{text}");
        }
    }

    #[test]
    fn floats_are_finite_numbers() {
        assert_eq!(float("-1.5e3"), Some(-1500.0));
        assert_eq!(float("0.1"), Some(0.1));
        assert_eq!(float("1e-400"), Some(0.0));
        for text in ["", "NaN", "inf", "-infinity", "1e400", "1,5", " 1", "e", "-"] {
            assert_eq!(float(text), None, "{text}");
        }
    }
}
