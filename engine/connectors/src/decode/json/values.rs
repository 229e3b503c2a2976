//! From values of messages to columns: texts and numbers through the loops that CSV has too, lists and objects level by level.

use super::super::cells::{Cell, Faults};
use super::super::column::{Column, Data};
use super::keys::Keys;
use super::scan::{ABSENT, Kind, MASKED, Token, array, object, unescape};

/// What tokens refer to.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) rows: &'a [&'a [u8]],
    /// Texts whose escapes were replaced.
    pub(super) arena: &'a [u8],
    /// The record of the first row.
    pub(super) first: usize,
}

impl<'a> Source<'a> {
    #[inline]
    fn bytes(&self, row: usize, token: Token) -> &'a [u8] {
        let from = if token.kind == Kind::Unescaped { self.arena } else { self.rows[row] };
        &from[token.start as usize..token.end as usize]
    }

    #[inline]
    fn cell(&self, row: usize, token: Token) -> Cell<'a> {
        match token.kind {
            Kind::Null => Cell::Null,
            Kind::Masked => Cell::Masked,
            Kind::True | Kind::False | Kind::Number | Kind::Text | Kind::Escaped | Kind::Unescaped => Cell::Text(self.bytes(row, token)),
            Kind::Object | Kind::Array => Cell::Nested(self.bytes(row, token)),
        }
    }
}

/// Replaces the escapes of a text, into the arena.
pub(super) fn settle(row: &[u8], token: &mut Token, arena: &mut Vec<u8>) {
    if token.kind == Kind::Escaped {
        let start = arena.len();
        unescape(&row[token.start as usize..token.end as usize], arena);
        *token = Token { start: start as u32, end: arena.len() as u32, kind: Kind::Unescaped };
    }
}

/// Appends a value of every row.
pub(super) fn append(column: &mut Column, source: Source<'_>, tokens: &[Token], faults: &mut Faults) {
    if column.is_nested() {
        let rows: Vec<u32> = (0..tokens.len() as u32).collect();
        append_nested(column, source, tokens, &rows, faults);
        return;
    }
    let number = |index: usize| {
        let token = tokens[index];
        (token.kind == Kind::Number).then(|| &source.rows[index][token.start as usize..token.end as usize])
    };
    // The parser has checked that texts are UTF-8.
    let text = |index: usize| {
        let token = tokens[index];
        (token.kind == Kind::Text).then(|| &source.rows[index][token.start as usize..token.end as usize])
    };
    let mut next = 0;
    while next < tokens.len() {
        next = column.append_known(next, tokens.len(), number, text);
        // What is not so simple rarely stands alone.
        let some = tokens.len().min(next + 64);
        column.append_cells(
            some - next,
            |index| source.cell(next + index, tokens[next + index]),
            |index| source.first + next + index,
            faults,
        );
        next = some;
    }
}

/// Appends values that stand inside of others; `rows` has the row of each. Lists first gather the items of all rows, objects the
/// values of all rows for each field; then the level below is one call.
fn append_nested(column: &mut Column, source: Source<'_>, tokens: &[Token], rows: &[u32], faults: &mut Faults) {
    match &mut column.data {
        Data::List { .. } => append_lists(column, source, tokens, rows, faults),
        Data::Struct(_) => append_structs(column, source, tokens, rows, faults),
        _ => {
            let row = |index: usize| rows[index] as usize;
            let cell = |index: usize| source.cell(row(index), tokens[index]);
            column.append_cells(tokens.len(), cell, |index| source.first + row(index), faults);
        }
    }
}

fn append_lists(column: &mut Column, source: Source<'_>, tokens: &[Token], rows: &[u32], faults: &mut Faults) {
    let (mut items, mut item_rows, mut arena) = (Vec::new(), Vec::new(), Vec::new());
    let mut ends = Vec::with_capacity(tokens.len());
    for (token, owner) in tokens.iter().zip(rows) {
        if token.kind == Kind::Array {
            let row = source.rows[*owner as usize];
            // It was read before, so this cannot fail.
            let _ = array(row, token.start as usize, 0, |mut item| {
                settle(row, &mut item, &mut arena);
                items.push(item);
                item_rows.push(*owner);
            });
        }
        ends.push(items.len());
    }
    let Data::List { item, .. } = &mut column.data else { return };
    let before = item.len();
    append_nested(item, Source { arena: &arena, ..source }, &items, &item_rows, faults);
    for ((token, owner), end) in tokens.iter().zip(rows).zip(ends) {
        close(column, source, *token, *owner, Kind::Array, before + end, faults);
    }
}

fn append_structs(column: &mut Column, source: Source<'_>, tokens: &[Token], rows: &[u32], faults: &mut Faults) {
    let Data::Struct(fields) = &mut column.data else { return };
    let mut keys = Keys::new(fields.iter().map(Column::name));
    let mut children = vec![Vec::with_capacity(tokens.len()); fields.len()];
    let mut arena = Vec::new();
    for (token, owner) in tokens.iter().zip(rows) {
        let is_object = token.kind == Kind::Object;
        children.iter_mut().for_each(|child: &mut Vec<Token>| child.push(if is_object { ABSENT } else { MASKED }));
        if is_object {
            let row = source.rows[*owner as usize];
            keys.begin();
            // It was read before, so this cannot fail. The last of equal keys counts.
            let _ = object(row, token.start as usize, 0, |key, mut value| {
                if let Some(value_of) = keys.find(row, key).and_then(|index| children[index].last_mut()) {
                    settle(row, &mut value, &mut arena);
                    *value_of = value;
                }
            });
        }
    }
    for (field, tokens) in fields.iter_mut().zip(&children) {
        append_nested(field, Source { arena: &arena, ..source }, tokens, rows, faults);
    }
    for (token, owner) in tokens.iter().zip(rows) {
        close(column, source, *token, *owner, Kind::Object, 0, faults);
    }
}

/// Ends a list or struct whose content has been appended.
fn close(column: &mut Column, source: Source<'_>, token: Token, owner: u32, wanted: Kind, end: usize, faults: &mut Faults) {
    let record = source.first + owner as usize;
    let valid = token.kind == wanted;
    match token.kind {
        Kind::Null => column.note_missing(record, faults),
        Kind::Masked => {}
        _ if valid => {}
        _ => column.note_misfit(record, source.bytes(owner as usize, token), faults),
    }
    column.close_at(valid, end);
}
