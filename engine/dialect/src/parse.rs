//! From tokens to an expression: precedence climbing with a bound on nesting.
//!
//! Weakest first: `?:`, `??`, `||`, `&&`, `== !=`, `< <= > >= in`, `+ -`, `* / %`, `! -` (prefix), `. ?. [] ()`.

use crate::Diagnostic;
use crate::ast::{Access, Arithmetic, BinaryOp, Compare, Expr, ExprKind, UnaryOp};
use crate::lex::{Spanned, Token, tokens};
use std::ops::Range;

/// Levels of nesting an expression may have, so that no text can exhaust a thread's stack.
pub(crate) const MAX_DEPTH: usize = 200;

/// Bytes an expression may have.
pub(crate) const MAX_LENGTH: usize = 1 << 20;

/// Reads `text` as one expression.
pub(crate) fn parse(text: &str) -> Result<Expr, Diagnostic> {
    if text.len() > MAX_LENGTH {
        let message = format!("the expression has {} bytes, at most {MAX_LENGTH} are read: split it into several columns", text.len());
        return Err(Diagnostic::new(text, 0..1, message));
    }
    let mut parser = Parser { text, tokens: tokens(text)?, at: 0, nested: 0 };
    let expr = parser.expression()?;
    match &parser.peek().token {
        Token::End => Ok(expr),
        Token::Symbol("=") => parser.unexpected("`=` is not an operator, write `==` to compare"),
        Token::Symbol("->") => parser.unexpected("a lambda stands only as an argument of a function such as `map`"),
        _ => parser.unexpected("expected an operator or the end"),
    }
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Spanned>,
    at: usize,
    nested: usize,
}

impl Parser<'_> {
    fn peek(&self) -> &Spanned {
        &self.tokens[self.at]
    }

    fn advance(&mut self) -> Spanned {
        let spanned = self.tokens[self.at].clone();
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        spanned
    }

    fn accept(&mut self, symbol: &str) -> bool {
        let found = matches!(&self.peek().token, Token::Symbol(found) if *found == symbol);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, symbol: &str, purpose: &str) -> Result<Range<usize>, Diagnostic> {
        let span = self.peek().span.clone();
        if self.accept(symbol) { Ok(span) } else { self.unexpected(&format!("expected `{symbol}` {purpose}")) }
    }

    fn unexpected<T>(&self, message: &str) -> Result<T, Diagnostic> {
        let Spanned { token, span } = self.peek();
        let message = match token {
            Token::End => format!("{message}, but the expression ends here"),
            Token::Symbol("=") if message.contains("`==`") => message.to_string(),
            _ => format!("{message}, found `{}`", &self.text[span.clone()]),
        };
        Err(Diagnostic::new(self.text, span.clone(), message))
    }

    fn node(&self, kind: ExprKind, span: Range<usize>, children: usize) -> Result<Expr, Diagnostic> {
        let depth = children + 1;
        if depth > MAX_DEPTH {
            return Err(self.too_deep(span));
        }
        Ok(Expr { kind, span, depth })
    }

    fn too_deep(&self, span: Range<usize>) -> Diagnostic {
        Diagnostic::new(self.text, span, format!("the expression is nested deeper than {MAX_DEPTH} levels, split it into several columns"))
    }

    fn expression(&mut self) -> Result<Expr, Diagnostic> {
        self.nested += 1;
        if self.nested > MAX_DEPTH {
            return Err(self.too_deep(self.peek().span.clone()));
        }
        let condition = self.binary(0)?;
        let expr = if self.accept("?") {
            let then = self.expression()?;
            self.expect(":", "and the other value of `?`")?;
            let otherwise = self.expression()?;
            let span = condition.span.start..otherwise.span.end;
            let depth = condition.depth.max(then.depth).max(otherwise.depth);
            self.node(ExprKind::If(Box::new(condition), Box::new(then), Box::new(otherwise)), span, depth)?
        } else {
            condition
        };
        self.nested -= 1;
        Ok(expr)
    }

    fn binary(&mut self, weakest: u8) -> Result<Expr, Diagnostic> {
        let mut left = self.unary()?;
        while let Some((op, strength)) = self.peek_operator() {
            if strength < weakest {
                break;
            }
            self.advance();
            if strength == RELATION
                && matches!(&left.kind, ExprKind::Binary(BinaryOp::Compare(inner), _, _) if inner_is_relation(*inner, &left, self.text))
            {
                return Err(Diagnostic::new(self.text, left.span, "comparisons cannot be chained, write `a < b && b < c`"));
            }
            left = match op {
                Infix::In => self.within(left)?,
                Infix::Binary(op) => {
                    let right = self.binary(strength + 1)?;
                    let span = left.span.start..right.span.end;
                    let depth = left.depth.max(right.depth);
                    self.node(ExprKind::Binary(op, Box::new(left), Box::new(right)), span, depth)?
                }
            };
        }
        Ok(left)
    }

    /// What stands behind `in`: a list written out, a range, or an expression that is a list.
    fn within(&mut self, value: Expr) -> Result<Expr, Diagnostic> {
        let right = self.binary(RELATION + 1)?;
        let (start, depth) = (value.span.start, value.depth.max(right.depth));
        if self.accept("..") {
            let high = self.binary(RELATION + 1)?;
            let (span, depth) = (start..high.span.end, depth.max(high.depth));
            return self.node(ExprKind::InRange(Box::new(value), Box::new(right), Box::new(high)), span, depth);
        }
        let span = start..right.span.end;
        match right.kind {
            ExprKind::List(items) => self.node(ExprKind::In(Box::new(value), items), span, depth),
            _ => self.node(ExprKind::InList(Box::new(value), Box::new(right)), span, depth),
        }
    }

    fn peek_operator(&self) -> Option<(Infix, u8)> {
        use {Arithmetic::*, Compare::*};
        let found = match &self.peek().token {
            Token::Symbol("??") => (BinaryOp::Coalesce, 0),
            Token::Symbol("||") => (BinaryOp::Or, 1),
            Token::Symbol("&&") => (BinaryOp::And, 2),
            Token::Symbol("==") => (BinaryOp::Compare(Equal), 3),
            Token::Symbol("!=") => (BinaryOp::Compare(NotEqual), 3),
            Token::Symbol("<") => (BinaryOp::Compare(Less), RELATION),
            Token::Symbol("<=") => (BinaryOp::Compare(LessOrEqual), RELATION),
            Token::Symbol(">") => (BinaryOp::Compare(Greater), RELATION),
            Token::Symbol(">=") => (BinaryOp::Compare(GreaterOrEqual), RELATION),
            Token::Name(word) if word == "in" => return Some((Infix::In, RELATION)),
            Token::Symbol("+") => (BinaryOp::Arithmetic(Add), 5),
            Token::Symbol("-") => (BinaryOp::Arithmetic(Subtract), 5),
            Token::Symbol("*") => (BinaryOp::Arithmetic(Multiply), 6),
            Token::Symbol("/") => (BinaryOp::Arithmetic(Divide), 6),
            Token::Symbol("%") => (BinaryOp::Arithmetic(Modulo), 6),
            _ => return None,
        };
        Some((Infix::Binary(found.0), found.1))
    }

    fn unary(&mut self) -> Result<Expr, Diagnostic> {
        let start = self.peek().span.start;
        let op = match &self.peek().token {
            Token::Symbol("!") => UnaryOp::Not,
            Token::Symbol("-") => UnaryOp::Negate,
            _ => return self.postfix(),
        };
        self.advance();
        self.nested += 1;
        if self.nested > MAX_DEPTH {
            return Err(self.too_deep(start..self.peek().span.end));
        }
        let operand = self.unary()?;
        self.nested -= 1;
        let (span, depth) = (start..operand.span.end, operand.depth);
        self.node(ExprKind::Unary(op, Box::new(operand)), span, depth)
    }

    fn postfix(&mut self) -> Result<Expr, Diagnostic> {
        let mut value = self.primary()?;
        loop {
            let (start, depth) = (value.span.start, value.depth);
            let access = match &self.peek().token {
                Token::Symbol(".") => Some(Access::Plain),
                Token::Symbol("?.") => Some(Access::NullSafe),
                _ => None,
            };
            if let Some(access) = access {
                let symbol = self.advance().span;
                let Spanned { token, span } = self.peek().clone();
                let (Token::Name(name) | Token::Quoted(name)) = token else {
                    return self.unexpected(&format!("expected the name of a member after `{}`", &self.text[symbol]));
                };
                self.advance();
                value = self.node(ExprKind::Member(Box::new(value), access, name), start..span.end, depth)?;
            } else if self.accept("[") {
                let index = self.expression()?;
                let end = self.expect("]", "after the index")?.end;
                let depth = depth.max(index.depth);
                value = self.node(ExprKind::Index(Box::new(value), Box::new(index)), start..end, depth)?;
            } else {
                return Ok(value);
            }
        }
    }

    fn primary(&mut self) -> Result<Expr, Diagnostic> {
        let Spanned { token, span } = self.peek().clone();
        match token {
            Token::Integer(_) | Token::Float(_) | Token::Decimal(..) | Token::Text(_) | Token::Timestamp(..) | Token::Duration(_) => {
                self.advance();
                self.node(ExprKind::Literal(token), span, 0)
            }
            Token::Quoted(name) => {
                self.advance();
                self.node(ExprKind::Column(name), span, 0)
            }
            Token::Name(name) => {
                if name == "in" {
                    return self.unexpected("expected a value");
                }
                self.advance();
                match name.as_str() {
                    "null" => self.node(ExprKind::Null, span, 0),
                    "true" | "false" => self.node(ExprKind::Bool(name == "true"), span, 0),
                    _ if self.accept("(") => {
                        let (args, end) = self.list(")", Self::argument)?;
                        let depth = args.iter().map(|arg| arg.depth).max().unwrap_or(0);
                        self.node(ExprKind::Call(name, args), span.start..end, depth)
                    }
                    _ => self.node(ExprKind::Column(name), span, 0),
                }
            }
            Token::Symbol("(") => {
                self.advance();
                let inner = self.expression()?;
                let end = self.expect(")", "after the expression in parentheses")?.end;
                Ok(Expr { span: span.start..end, ..inner })
            }
            Token::Symbol("[") => {
                self.advance();
                let (items, end) = self.list("]", Self::expression)?;
                let depth = items.iter().map(|item| item.depth).max().unwrap_or(0);
                self.node(ExprKind::List(items), span.start..end, depth)
            }
            Token::Symbol("{") => {
                self.advance();
                let (members, end) = self.list("}", Self::object_member)?;
                let depth = members.iter().map(|(_, value)| value.depth).max().unwrap_or(0);
                self.node(ExprKind::Object(members), span.start..end, depth)
            }
            Token::Symbol(_) | Token::End => self.unexpected("expected a value"),
        }
    }

    /// `name: value`; the name stands bare, in quotes or in backticks.
    fn object_member(&mut self) -> Result<(String, Expr), Diagnostic> {
        let (Token::Name(name) | Token::Quoted(name) | Token::Text(name)) = self.peek().token.clone() else {
            return self.unexpected("expected the name of a member");
        };
        self.advance();
        self.expect(":", "and the member's value")?;
        Ok((name, self.expression()?))
    }

    /// An argument of a call, which may be a lambda: `x -> body` or `(x, i) -> body`.
    fn argument(&mut self) -> Result<Expr, Diagnostic> {
        let Some(params) = self.params() else { return self.expression() };
        let start = self.peek().span.start;
        let mut names = Vec::with_capacity(params);
        while !self.accept("->") {
            if let Spanned { token: Token::Name(name) | Token::Quoted(name), span } = self.advance() {
                if names.contains(&name) {
                    return Err(Diagnostic::new(self.text, span, format!("the lambda has two parameters named `{name}`")));
                }
                names.push(name);
            }
        }
        let body = self.expression()?;
        let (span, depth) = (start..body.span.end, body.depth);
        self.node(ExprKind::Lambda(names, Box::new(body)), span, depth)
    }

    /// The number of parameters, if a lambda begins here.
    fn params(&self) -> Option<usize> {
        let token = |at: usize| self.tokens.get(at).map(|spanned| &spanned.token);
        let is = |at: usize, symbol: &str| matches!(token(at), Some(Token::Symbol(found)) if *found == symbol);
        let name = |at: usize| match token(at) {
            Some(Token::Quoted(_)) => true,
            Some(Token::Name(word)) => !matches!(word.as_str(), "true" | "false" | "null" | "in"),
            _ => false,
        };
        if name(self.at) && is(self.at + 1, "->") {
            return Some(1);
        }
        let (mut at, mut count) = (self.at + 1, 0);
        if !is(self.at, "(") {
            return None;
        }
        // No lambda has more than two parameters; looking further would make nested parentheses slow to read.
        while name(at) && count < 4 {
            count += 1;
            if is(at + 1, ")") {
                return is(at + 2, "->").then_some(count);
            }
            if !is(at + 1, ",") {
                return None;
            }
            at += 2;
        }
        None
    }

    /// Items up to `close`, whose end is returned; a comma may stand behind the last.
    fn list<T>(&mut self, close: &'static str, item: impl Fn(&mut Self) -> Result<T, Diagnostic>) -> Result<(Vec<T>, usize), Diagnostic> {
        let mut items = Vec::new();
        loop {
            let span = self.peek().span.clone();
            if self.accept(close) {
                return Ok((items, span.end));
            }
            items.push(item(self)?);
            let span = self.peek().span.clone();
            if self.accept(close) {
                return Ok((items, span.end));
            }
            if !self.accept(",") {
                return self.unexpected(&format!("expected `,` or `{close}`"));
            }
        }
    }
}

/// The strength of `< <= > >= in`, the only operators that do not chain.
const RELATION: u8 = 4;

enum Infix {
    Binary(BinaryOp),
    In,
}

/// Whether `left` is an unparenthesised relation.
fn inner_is_relation(op: Compare, left: &Expr, text: &str) -> bool {
    let relation = match op {
        Compare::Equal | Compare::NotEqual => false,
        Compare::Less | Compare::LessOrEqual | Compare::Greater | Compare::GreaterOrEqual => true,
    };
    relation && !text[left.span.clone()].starts_with('(')
}

#[cfg(test)]
mod tests;
