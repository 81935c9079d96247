//! Calls into readers that may panic on damaged input, made into errors.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`; a panic in it becomes its message, and prints nothing.
///
/// Only for work whose state is thrown away after a failure.
pub(crate) fn unpanicked<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                previous(info);
            }
        }));
    });
    let outer = QUIET.replace(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(work));
    QUIET.set(outer);
    outcome.map_err(|payload| message(payload.as_ref()))
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("the reader failed")
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::unpanicked;

    #[test]
    fn a_panic_becomes_its_message() {
        assert_eq!(unpanicked(|| 1), Ok(1));
        assert_eq!(unpanicked(|| -> i32 { panic!("at {}", 7) }), Err("at 7".to_string()));
    }
}
