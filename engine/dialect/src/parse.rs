//! From tokens to an expression: precedence climbing with a bound on nesting.
//!
//! Weakest first: `?:`, `??`, `||`, `&&`, `== !=`, `< <= > >= in`, `+ -`, `* / %`, `! -` (prefix), `. [] ()`.

use crate::Diagnostic;
use crate::ast::{Arithmetic, BinaryOp, Compare, Expr, ExprKind, UnaryOp};
use crate::lex::{Spanned, Token, tokens};
use std::ops::Range;

/// Levels of nesting an expression may have, so that no text can exhaust a thread's stack.
pub(crate) const MAX_DEPTH: usize = 200;

/// Reads `text` as one expression.
pub(crate) fn parse(text: &str) -> Result<Expr, Diagnostic> {
    let mut parser = Parser { text, tokens: tokens(text)?, at: 0, nested: 0 };
    let expr = parser.expression()?;
    match &parser.peek().token {
        Token::End => Ok(expr),
        Token::Symbol("=") => parser.unexpected("`=` is not an operator, write `==` to compare"),
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
                Infix::In => {
                    self.expect("[", "after `in`")?;
                    let (items, end) = self.list("]")?;
                    let depth = items.iter().map(|item| item.depth).max().unwrap_or(0).max(left.depth);
                    let span = left.span.start..end;
                    self.node(ExprKind::In(Box::new(left), items), span, depth)?
                }
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
            if self.accept(".") {
                let Spanned { token, span } = self.peek().clone();
                let (Token::Name(name) | Token::Quoted(name)) = token else {
                    return self.unexpected("expected the name of a member after `.`");
                };
                self.advance();
                value = self.node(ExprKind::Member(Box::new(value), name), start..span.end, depth)?;
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
                        let (args, end) = self.list(")")?;
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
            Token::Symbol(_) | Token::End => self.unexpected("expected a value"),
        }
    }

    /// Expressions up to `close`, whose end is returned; a comma may stand behind the last.
    fn list(&mut self, close: &'static str) -> Result<(Vec<Expr>, usize), Diagnostic> {
        let mut items = Vec::new();
        loop {
            let span = self.peek().span.clone();
            if self.accept(close) {
                return Ok((items, span.end));
            }
            items.push(self.expression()?);
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
mod tests {
    use super::*;

    /// The tree with every operation in parentheses.
    fn shape(text: &str) -> String {
        fn show(expr: &Expr, text: &str) -> String {
            match &expr.kind {
                ExprKind::Binary(op, left, right) => {
                    let symbol = match op {
                        BinaryOp::Arithmetic(op) => op.symbol(),
                        BinaryOp::Compare(op) => op.symbol(),
                        BinaryOp::And => "&&",
                        BinaryOp::Or => "||",
                        BinaryOp::Coalesce => "??",
                    };
                    format!("({} {symbol} {})", show(left, text), show(right, text))
                }
                ExprKind::Unary(UnaryOp::Not, inner) => format!("(!{})", show(inner, text)),
                ExprKind::Unary(UnaryOp::Negate, inner) => format!("(-{})", show(inner, text)),
                ExprKind::If(a, b, c) => format!("({} ? {} : {})", show(a, text), show(b, text), show(c, text)),
                ExprKind::In(value, items) => format!("({} in {})", show(value, text), items.len()),
                ExprKind::Member(value, name) => format!("({}.{name})", show(value, text)),
                ExprKind::Index(value, index) => format!("({}[{}])", show(value, text), show(index, text)),
                ExprKind::Call(name, args) => format!("{name}/{}", args.len()),
                ExprKind::Null | ExprKind::Bool(_) | ExprKind::Literal(_) | ExprKind::Column(_) => text[expr.span.clone()].to_string(),
            }
        }
        show(&parse(text).unwrap(), text)
    }

    #[test]
    fn precedence_is_that_of_the_manual() {
        assert_eq!(shape("a || b && c == d < e + f * -g.h[1]"), "(a || (b && (c == (d < (e + (f * (-((g.h)[1]))))))))");
        assert_eq!(shape("a - b - c"), "((a - b) - c)");
        assert_eq!(shape("a ?? b || c"), "(a ?? (b || c))");
        assert_eq!(shape("a ? b : c ? d : e"), "(a ? b : (c ? d : e))");
        assert_eq!(shape("!a in [1, 2,]"), "((!a) in 2)");
        assert_eq!(shape("1--2"), "(1 - (-2))");
        assert_eq!(shape("(a < b) < c"), "((a < b) < c)");
    }

    #[test]
    fn mistakes_say_what_was_expected_and_where() {
        for (text, message, column) in [
            ("a +", "expected a value, but the expression ends here", 4),
            ("a = 1", "`=` is not an operator, write `==` to compare", 3),
            ("a < b < c", "comparisons cannot be chained, write `a < b && b < c`", 1),
            ("f(1", "expected `,` or `)`, but the expression ends here", 4),
            ("a ? 1", "expected `:` and the other value of `?`, but the expression ends here", 6),
            ("a b", "expected an operator or the end, found `b`", 3),
            ("a.1", "expected the name of a member after `.`, found `1`", 3),
            ("", "expected a value, but the expression ends here", 1),
        ] {
            let found = parse(text).unwrap_err();
            assert_eq!((found.message.as_str(), found.column), (message, column), "{text}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_and_not_followed() {
        for deep in [
            format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000)),
            format!("{}1", "-".repeat(100_000)),
            format!("{}true", "!".repeat(100_000)),
            format!("1{}", " + 1".repeat(100_000)),
            format!("{}1", "true ? 1 : ".repeat(100_000)),
            format!("a{}", ".b".repeat(100_000)),
            format!("{}1", "f(".repeat(100_000)),
        ] {
            assert!(parse(&deep).unwrap_err().message.contains("nested deeper"));
        }
        assert!(parse(&format!("{}1{}", "(".repeat(150), ")".repeat(150))).is_ok());
        assert!(parse(&format!("1{}", " + 1".repeat(150))).is_ok());
    }
}
