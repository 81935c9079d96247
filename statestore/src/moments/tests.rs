use super::*;
use num_bigint::BigInt;

const ALL: [Spread; 4] = [
    Spread {
        sample: false,
        root: false,
    },
    Spread {
        sample: true,
        root: false,
    },
    Spread {
        sample: false,
        root: true,
    },
    Spread {
        sample: true,
        root: true,
    },
];

/// The slow way: sums of big numbers, and a quotient rounded half away from zero.
fn model(values: &[i128], spread: Spread, digits: u32, wanted: u32) -> Option<BigInt> {
    let count = BigInt::from(values.len());
    let divisor = &count * (&count - if spread.sample { 1 } else { 0 });
    if divisor <= BigInt::ZERO {
        return None;
    }
    let sum: BigInt = values.iter().map(|value| BigInt::from(*value)).sum();
    let squares: BigInt = values.iter().map(|value| BigInt::from(*value).pow(2)).sum();
    let spread_out = &count * squares - &sum * &sum;
    let ten = BigInt::from(10);
    if spread.root {
        let square: BigInt = spread_out * ten.pow(2 * (wanted - digits)) * 4 / divisor;
        return Some((square.sqrt() + 1) / 2);
    }
    let (more, less) = (wanted.saturating_sub(2 * digits), (2 * digits).saturating_sub(wanted));
    Some((spread_out * ten.pow(more) * 2 / (divisor * ten.pow(less)) + 1) / 2)
}

#[test]
fn exact_moments_agree_with_big_numbers_and_forget_what_went() {
    let wide = 10i128.pow(37);
    let sets: [&[i128]; 7] = [
        &[],
        &[5],
        &[1, 2],
        &[-7, 0, 3, 3, 1_000_000_007],
        &[i64::MIN as i128, i64::MAX as i128, 17],
        &[wide, wide + 1, wide + 2],
        &[-wide, -wide + 5],
    ];
    for values in sets {
        let mut moments = ExactMoments::default();
        values.iter().for_each(|value| moments.add(*value, 3));
        moments.add(9 * wide, 1_000_000);
        moments.add(i128::MIN + 1, i64::MAX);
        values.iter().rev().for_each(|value| moments.add(*value, -2));
        moments.add(i128::MIN + 1, -i64::MAX);
        moments.add(9 * wide, -1_000_000);
        let mut fresh = ExactMoments::default();
        let mut rest = ExactMoments::default();
        for (index, value) in values.iter().enumerate() {
            if index % 2 == 0 { &mut fresh } else { &mut rest }.add(*value, 1);
        }
        fresh.merge(&rest);
        assert_eq!(moments, fresh);
        let mut bytes = Vec::new();
        moments.to_bytes(&mut bytes);
        assert_eq!(ExactMoments::from_bytes(&bytes).unwrap(), fresh);
        for spread in ALL {
            for (digits, wanted) in [(0, 0), (0, 6), (2, 3), (4, 4), (2, 16)] {
                let given = fresh.read(values.len() as i64, spread, digits, wanted);
                let expected = model(values, spread, digits.into(), wanted.into());
                match given {
                    Some(given) => assert_eq!(given.map(BigInt::from), expected, "{values:?} {spread:?}"),
                    None => assert!(expected.unwrap() > BigInt::from(8 * wide), "{values:?} {spread:?}"),
                }
            }
        }
    }
}

fn read(values: &[f64], sample: bool, root: bool) -> Option<f64> {
    let mut moments = FloatMoments::default();
    values.iter().for_each(|value| moments.add(*value, 1));
    moments.read(values.len() as i64, Spread { sample, root })
}

#[test]
fn variances_of_floats_are_right_where_naive_ones_lose_all_digits() {
    assert_eq!(read(&[1e15 + 1.0, 1e15 + 2.0, 1e15 + 3.0], true, false), Some(1.0));
    assert_eq!(read(&[1.0, 2.0, 3.0, 4.0], false, false), Some(1.25));
    assert_eq!(read(&[1.0, 4.0], false, true), Some(1.5));
    assert_eq!(read(&[0.1; 3], false, false), Some(0.0));
    assert_eq!(read(&[1.0, 2.0], true, true), Some(std::f64::consts::FRAC_1_SQRT_2));
    assert_eq!(read(&[1e-300, 3e-300], false, true), Some(0.0));
    let tiny = 2f64.powi(-470);
    assert_eq!(read(&[tiny, 3.0 * tiny], false, true), Some(tiny));
}

#[test]
fn values_whose_squares_are_no_doubles_have_a_deviation_or_are_out_of_range() {
    assert_eq!(read(&[1e200, 1e200], false, false), Some(0.0));
    assert_eq!(read(&[f64::MAX, -f64::MAX], true, false), Some(f64::INFINITY));
    let near = [1e200, 1e200 * (1.0 + f64::EPSILON)];
    assert_eq!(read(&near, false, false), Some(f64::INFINITY));
    assert_eq!(read(&[1e153, -1e153], false, true), Some(1e153));
}

#[test]
fn few_values_and_values_that_are_no_numbers() {
    assert_eq!(read(&[], false, false), None);
    assert_eq!(read(&[3.0], true, false), None);
    assert_eq!(read(&[3.0], false, true), Some(0.0));
    assert_eq!(read(&[f64::NAN], true, false), None);
    for special in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert!(read(&[special], false, false).unwrap().is_nan());
        assert!(read(&[1.0, special, 2.0], true, true).unwrap().is_nan());
    }
}

#[test]
fn floats_that_come_and_go_leave_no_trace_in_any_order() {
    let values = [
        0.1,
        1e300,
        -5e-324,
        f64::NAN,
        -1e16,
        f64::INFINITY,
        3.5,
        1e-160,
        -f64::MAX,
    ];
    let mut there = FloatMoments::default();
    values[..3].iter().for_each(|value| there.add(*value, 2));
    for start in 0..values.len() {
        let mut moments = FloatMoments::default();
        let turned = || values.iter().cycle().skip(start).take(values.len());
        turned().for_each(|value| moments.add(*value, 5));
        let mut other = FloatMoments::default();
        values[3..].iter().rev().for_each(|value| other.add(*value, -5));
        values[..3].iter().for_each(|value| other.add(*value, -3));
        moments.merge(&other);
        assert_eq!(moments, there);
        let mut bytes = Vec::new();
        moments.to_bytes(&mut bytes);
        assert_eq!(FloatMoments::from_bytes(&bytes).unwrap(), there);
    }
    assert!(FloatMoments::from_bytes(&[1]).is_err());
}

#[test]
fn damaged_bytes_are_refused_by_name() {
    for bytes in [&b""[..], &[7; 3]] {
        let error = ExactMoments::from_bytes(bytes).unwrap_err();
        assert_eq!((error.code(), error.state()), ("STATE-0203", "XX001"));
        assert_eq!(
            error.message(),
            "cannot read sums of squares: their bytes are no canonical form"
        );
    }
}
