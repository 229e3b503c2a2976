//! What every sink delivers: all rows, by the end of a flush. With two phases the flush is followed by its prepare and commit.

use super::bench::{Bench, World, generation};
use crate::rules::Rule;
use crate::verdict::Verdict;
use arrow::array::RecordBatch;

pub(super) fn barriers(bench: &Bench<'_>) -> Verdict {
    let it = bench.world()?;
    let mut writer = it.any_writer(generation(1))?;
    let mut written: Vec<&RecordBatch> = Vec::new();
    // Batches by their number, none in some epochs, several in others.
    for (epoch, numbers) in [(1, vec![0]), (2, vec![]), (3, vec![1, 0]), (4, vec![]), (5, vec![1])] {
        for number in numbers {
            writer.write(written.len(), bench.rows(number))?;
            written.push(bench.rows(number));
        }
        writer.barrier(epoch, Rule::FlushDelivers)?;
        it.has(Rule::FlushDelivers, &written, &format!("after the barrier of epoch {epoch}"))?;
    }
    writer.write(written.len(), &bench.no_rows())?;
    writer.barrier(6, Rule::FlushDelivers)?;
    drop(writer);
    it.has(Rule::FlushDelivers, &written, "after the writer is gone")
}

pub(super) fn several_tasks(bench: &Bench<'_>) -> Verdict {
    let it = bench.world()?;
    let mut writers = (0..3).map(|task| it.any_writer(generation(1).task(task))).collect::<Verdict<Vec<_>>>()?;
    let mut written: Vec<&RecordBatch> = Vec::new();
    for epoch in 1..3 {
        for (task, writer) in writers.iter_mut().enumerate() {
            if task != 1 {
                writer.write(written.len(), bench.rows(task))?;
                written.push(bench.rows(task));
            }
        }
        for writer in &mut writers {
            writer.barrier(epoch, Rule::FlushDelivers)?;
        }
        it.has(Rule::FlushDelivers, &written, &format!("after the barriers of three tasks in epoch {epoch}"))?;
    }
    Ok(())
}

/// How far an epoch gets before its writer dies.
const POINTS: [&str; 4] = ["at its beginning", "after a write", "after two writes", "after the barrier and before the manifest"];

pub(super) fn crashes(bench: &Bench<'_>) -> Verdict {
    for point in 0..POINTS.len() {
        replay(bench, point, Rule::CrashLosesNothing, false)?;
    }
    Ok(())
}

pub(super) fn replays(bench: &Bench<'_>) -> Verdict {
    for point in 0..POINTS.len() {
        replay(bench, point, Rule::ReplayOverwrites, true)?;
    }
    Ok(())
}

/// Epoch 1 is complete; epoch 2 dies at a point and comes again, in the same batches and, by another start, in others.
fn replay(bench: &Bench<'_>, point: usize, rule: Rule, once: bool) -> Verdict {
    let it = bench.world()?;
    let place = format!("an epoch died {}", POINTS[point]);
    let (first, second) = (bench.rows(0), bench.rows(1));
    let mut writer = it.any_writer(generation(1))?;
    writer.write(0, first)?;
    writer.barrier(1, rule)?;
    let calls = |writer: &mut super::bench::AnyWriter<'_>, calls: usize| {
        for call in 0..calls {
            match call {
                0 => writer.write(1, second)?,
                1 => writer.write(2, first)?,
                _ => writer.barrier(2, rule)?,
            }
        }
        Ok(())
    };
    calls(&mut writer, point)?;
    drop(writer);
    it.has_at_least(rule, &[first], &[first, second], &format!("{place}: what the barrier before it delivered"))?;
    for number in 2..4 {
        let mut writer = it.any_writer(generation(number))?;
        calls(&mut writer, POINTS.len() - 1)?;
        check(&it, rule, &[first, second, first], &format!("{place} and came again"), once)?;
    }
    Ok(())
}

fn check(it: &World<'_>, rule: Rule, written: &[&RecordBatch], detail: &str, once: bool) -> Verdict {
    if once { it.sees(rule, written, detail) } else { it.has(rule, written, detail) }
}
