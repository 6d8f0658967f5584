//! Floats as Python prints them.

/// `repr(x)`: the shortest digits that read back as `x`, positional for exponents -4 to 15, else scientific with at
/// least two exponent digits.
pub fn float_repr(x: f64) -> String {
    if x.is_nan() {
        return "nan".to_string();
    }
    if x.is_infinite() {
        return if x > 0.0 { "inf" } else { "-inf" }.to_string();
    }
    let scientific = format!("{x:e}");
    let (mantissa, exponent) = scientific.split_once('e').expect("LowerExp writes an e");
    let exponent: i32 = exponent
        .parse()
        .expect("LowerExp writes an integer exponent");
    if (-4..16).contains(&exponent) {
        let plain = format!("{x}");
        return if plain.contains('.') {
            plain
        } else {
            plain + ".0"
        };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// As `json.dumps` writes it: like `repr`, but NaN, Infinity and -Infinity.
pub fn float_json(x: f64) -> String {
    if x.is_nan() {
        "NaN".to_string()
    } else if x.is_infinite() {
        if x > 0.0 { "Infinity" } else { "-Infinity" }.to_string()
    } else {
        float_repr(x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_in_python() {
        for (x, text) in [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (0.1, "0.1"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (123456.789, "123456.789"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
            (5e-324, "5e-324"),
            (9007199254740993.0, "9007199254740992.0"),
        ] {
            assert_eq!(float_repr(x), text);
        }
        assert_eq!(float_json(f64::NEG_INFINITY), "-Infinity");
        assert_eq!(float_repr(f64::NAN), "nan");
    }
}
