//! Rounds that are a pure function of their number and the seed.

/// Splitmix64.
fn mixed(seed: u64) -> u64 {
    let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Runs `round` with its number and its random bits: so many rounds as `STORMPROOF_KILL_ROUNDS` asks for, else
/// `otherwise`. `STORMPROOF_KILL_SEED` repeats them.
pub(crate) fn rounds(otherwise: u64, mut round: impl FnMut(u64, u64)) {
    let seed = number_from_environment("STORMPROOF_KILL_SEED", 1);
    println!("STORMPROOF_KILL_SEED={seed}");
    for number in 0..number_from_environment("STORMPROOF_KILL_ROUNDS", otherwise) {
        round(number, mixed(seed ^ number.rotate_left(32)));
    }
}

/// A share of 0 to 1 from the highest bits of a choice.
pub(crate) fn share(choice: u64) -> f64 {
    f64::from(u8::try_from(choice >> 56).unwrap()) / 255.0
}

fn number_from_environment(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a whole number"))
}
