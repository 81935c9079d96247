//! A big signed integer, of which only the words between its lowest and its highest are held.
//!
//! The integer is the sum over `i` of `words[i] * 2^(64 * (base + i))`, in two's complement: the top bit of the
//! last word is the sign of all words above. Arithmetic is modulo `2^(64 * WORDS_MAX)`, which is some 2^460 times the
//! square of the largest double, out of reach for sums of fewer than 2^300 values or squares.

/// The highest number of words that an integer can have.
pub(super) const WORDS_MAX: usize = 56;

const INLINE: usize = 4;

/// See the module's page. `words` are in two's complement, lowest first.
#[derive(Clone)]
pub(super) enum Window {
    Inline { base: u16, words: [u64; INLINE] },
    Heap { base: u16, words: Vec<u64> },
}

/// A magnitude rounded to a number of digits: `mantissa * 2^shift`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rounded {
    pub negative: bool,
    pub mantissa: u64,
    pub shift: u32,
}

impl Default for Window {
    fn default() -> Window {
        Window::Inline {
            base: 0,
            words: [0; INLINE],
        }
    }
}

impl Window {
    /// The integer of `words` from word `base` up; few enough words are held without allocation.
    pub(super) fn of(base: u16, words: &[u64]) -> Window {
        let mut window = Window::default();
        window.store(base, words);
        window
    }

    /// Adds `product * 2^shift`, or takes it away if `negative`. `product` is below 2^117.
    #[inline]
    pub(super) fn add(&mut self, negative: bool, product: u128, shift: u32) {
        let mut word = shift / 64;
        let bit = shift % 64;
        let (low, high) = (product as u64, (product >> 64) as u64);
        let mut term = [
            low << bit,
            (high << bit) | (low >> 1 >> (63 - bit)),
            high >> 1 >> (63 - bit),
            0,
        ];
        while term[0] == 0 {
            term = [term[1], term[2], 0, 0];
            word += 1;
        }
        // One word more than the highest that is not zero, so that there is always room for the sign.
        let length = if term[2] != 0 { 4 } else { 2 + usize::from(term[1] != 0) };
        if negative {
            negate(&mut term);
        }
        if !self.add_inline(word as u16, &term, length) {
            self.add_words(word as u16, &term[..length]);
        }
    }

    /// Adds a term where the inline words have room for it; says whether they had. Else nothing is changed.
    #[inline]
    fn add_inline(&mut self, word: u16, term: &[u64; INLINE], length: usize) -> bool {
        let Window::Inline { base, words } = self else {
            return false;
        };
        let offset = usize::from(word.wrapping_sub(*base));
        if offset + length > INLINE {
            return false;
        }
        let mut sum = *words;
        let mut carry = false;
        for (place, digit) in sum[offset..].iter_mut().zip(term) {
            (*place, carry) = place.carrying_add(*digit, carry);
        }
        let (before, added, after) = (
            words[INLINE - 1] as i64,
            term[INLINE - 1] as i64,
            sum[INLINE - 1] as i64,
        );
        if (before ^ after) & (added ^ after) < 0 {
            return false;
        }
        *words = sum;
        true
    }

    /// Adds `other`.
    pub(super) fn merge(&mut self, other: &Window) {
        let (base, words) = other.trimmed();
        self.add_words(base, words);
    }

    /// Adds a two's complement integer of any place and length, widening or moving the window as needed.
    #[cold]
    fn add_words(&mut self, base: u16, words: &[u64]) {
        let (base, words) = trim(base, words);
        let (own_base, own) = self.trimmed();
        if words.is_empty() {
            return;
        }
        if own.is_empty() {
            return self.store(base, words);
        }
        let low = usize::from(base.min(own_base));
        let top = (usize::from(base) + words.len()).max(usize::from(own_base) + own.len()) + 1;
        let top = top.min(WORDS_MAX);
        let mut sum = [0u64; WORDS_MAX];
        place(&mut sum[low..top], usize::from(own_base) - low, own);
        let mut carry = false;
        let extension = sign(words);
        let skip = usize::from(base) - low;
        for (index, digit) in sum[low + skip..top].iter_mut().enumerate() {
            (*digit, carry) = digit.carrying_add(*words.get(index).unwrap_or(&extension), carry);
        }
        self.store(low as u16, &sum[low..top]);
    }

    /// Replaces the contents, inline where they fit.
    fn store(&mut self, base: u16, words: &[u64]) {
        let (base, words) = trim(base, words);
        if words.len() <= INLINE {
            let mut inline = [0; INLINE];
            place(&mut inline, 0, words);
            *self = Window::Inline { base, words: inline };
            return;
        }
        match self {
            Window::Heap { base: own, words: held } => {
                *own = base;
                held.clear();
                held.extend_from_slice(words);
            }
            Window::Inline { .. } => {
                *self = Window::Heap {
                    base,
                    words: words.to_vec(),
                }
            }
        }
    }

    /// The canonical form: lowest word and words, with no zero word below and no word above that only repeats the
    /// sign. Zero has no words and base 0.
    pub(super) fn trimmed(&self) -> (u16, &[u64]) {
        match self {
            Window::Inline { base, words } => trim(*base, words),
            Window::Heap { base, words } => trim(*base, words),
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Window::Inline { .. } => 0,
            Window::Heap { words, .. } => words.capacity() * size_of::<u64>(),
        }
    }

    /// Rounds the magnitude to nearest, ties to even, keeping at most `digits` bits and none below bit `lowest`.
    ///
    /// # Returns
    /// `mantissa` is at most `2^digits` (a carry is not shifted out); `shift` is at least `lowest`.
    pub(super) fn rounded(&self, digits: u32, lowest: u32) -> Rounded {
        let (base, words) = self.trimmed();
        let negative = sign(words) != 0;
        let mut magnitude = [0u64; WORDS_MAX + 2];
        let used = usize::from(base) + words.len();
        magnitude[usize::from(base)..used].copy_from_slice(words);
        if negative {
            negate(&mut magnitude[usize::from(base)..used]);
        }
        let length = match magnitude[..used].iter().rposition(|word| *word != 0) {
            Some(top) => top as u32 * 64 + (64 - magnitude[top].leading_zeros()),
            None => {
                return Rounded {
                    negative: false,
                    mantissa: 0,
                    shift: lowest,
                };
            }
        };
        let shift = length.saturating_sub(digits).max(lowest);
        let kept = bits_from(&magnitude, shift);
        let half = shift > 0 && bits_from(&magnitude, shift - 1) & 1 == 1;
        let up = half && (kept & 1 == 1 || any_below(&magnitude, shift - 1));
        Rounded {
            negative,
            mantissa: kept + u64::from(up),
            shift,
        }
    }
}

/// The word that stands for all words above `words`.
fn sign(words: &[u64]) -> u64 {
    words.last().map_or(0, |top| ((*top as i64) >> 63) as u64)
}

/// Writes `words` at `offset` and their sign above, up to the end.
fn place(target: &mut [u64], offset: usize, words: &[u64]) {
    target[offset..offset + words.len()].copy_from_slice(words);
    target[offset + words.len()..].fill(sign(words));
}

fn negate(words: &mut [u64]) {
    let mut carry = true;
    for word in words {
        (*word, carry) = (!*word).carrying_add(0, carry);
    }
}

fn trim(base: u16, words: &[u64]) -> (u16, &[u64]) {
    let Some(first) = words.iter().position(|word| *word != 0) else {
        return (0, &[]);
    };
    let mut words = &words[first..];
    while let [below @ .., top] = words
        && !below.is_empty()
        && *top == sign(below)
    {
        words = below;
    }
    (base + first as u16, words)
}

/// The 64 bits from bit `shift` up; zero beyond the end.
fn bits_from(words: &[u64], shift: u32) -> u64 {
    let (word, bit) = ((shift / 64) as usize, shift % 64);
    let at = |index: usize| words.get(index).copied().unwrap_or(0);
    (at(word) >> bit) | (at(word + 1) << 1 << (63 - bit))
}

fn any_below(words: &[u64], shift: u32) -> bool {
    let (word, bit) = ((shift / 64) as usize, shift % 64);
    words.iter().take(word).any(|below| *below != 0) || words.get(word).is_some_and(|at| at & ((1 << bit) - 1) != 0)
}
