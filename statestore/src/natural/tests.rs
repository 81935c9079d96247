use super::*;
use num_bigint::BigUint;

fn big(natural: &Natural) -> BigUint {
    BigUint::from_slice(
        &natural
            .0
            .iter()
            .flat_map(|word| [*word as u32, (word >> 32) as u32])
            .collect::<Vec<_>>(),
    )
}

/// Numbers of many lengths, with words of only ones and only zeros among them.
fn numbers() -> Vec<Natural> {
    let mut seed = 7u64;
    let mut word = move || {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        match seed >> 60 {
            0 => 0,
            1 => u64::MAX,
            _ => seed,
        }
    };
    let mut made = vec![Natural::default(), Natural(vec![1]), Natural(vec![0, 1])];
    made.extend((0..60).map(|length| Natural((0..length % 7).map(|_| word()).collect()).normal()));
    made
}

#[test]
fn arithmetic_agrees_with_a_library_of_big_numbers() {
    for a in numbers() {
        for b in numbers() {
            let (x, y) = (big(&a), big(&b));
            assert_eq!(big(&a.times(&b)), &x * &y);
            assert_eq!(big(&a.minus(&b)), if x > y { &x - &y } else { BigUint::ZERO });
        }
        for by in [0, 1, 63, 64, 65, 200] {
            assert_eq!(big(&a.shifted(by)), big(&a) << by);
            assert_eq!(big(&a.shifted(-by)), big(&a) >> by);
        }
        for divisor in [1, 3, 10, u64::MAX] {
            assert_eq!(big(&a.over_word(divisor)), big(&a) / divisor);
        }
        match a.root() {
            Some(root) => assert_eq!(BigUint::from(root), big(&a).sqrt()),
            None => assert!(a.bits() > 254),
        }
    }
}

#[test]
fn doubles_are_scaled_over_their_whole_range() {
    assert_eq!(Natural(vec![3]).to_f64(-1074), 3.0 * f64::from_bits(1));
    assert_eq!(Natural(vec![0, 0, 1]).to_f64(-128), 1.0);
    assert_eq!(Natural(vec![1]).to_f64(1024), f64::INFINITY);
    assert_eq!(Natural::default().to_f64(5000), 0.0);
    assert_eq!(scaled(1.5, 1022), 1.5 * 2f64.powi(1022));
}

#[test]
fn two_complement_words_give_their_magnitude() {
    assert_eq!(Natural::magnitude(&[u64::MAX, u64::MAX]), Natural(vec![1]));
    assert_eq!(Natural::magnitude(&[5, 0]), Natural(vec![5]));
    assert_eq!(Natural::magnitude(&[0, 1 << 63]), Natural(vec![0, 1 << 63]));
}
