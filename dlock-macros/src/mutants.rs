//! Slightly wrong input, for tests that nothing panics.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use proptest::{prelude::*, sample::Index};

/// Returns copies of `stream` with one token removed, doubled, swapped with its neighbor or put in an
/// invisible group, at every place and depth.
pub(crate) fn mutants(stream: &TokenStream) -> Vec<TokenStream> {
    let trees: Vec<TokenTree> = stream.clone().into_iter().collect();
    let mut mutants = Vec::new();
    for at in 0..trees.len() {
        let mut shorter = trees.clone();
        let removed = shorter.remove(at);
        mutants.push(shorter.into_iter().collect());

        let mut longer = trees.clone();
        longer.insert(at, removed.clone());
        mutants.push(longer.into_iter().collect());

        let mut swapped = trees.clone();
        swapped.swap(at, (at + 1) % trees.len());
        mutants.push(swapped.into_iter().collect());

        let mut grouped = trees.clone();
        grouped[at] = Group::new(Delimiter::None, removed.clone().into()).into();
        mutants.push(grouped.into_iter().collect());

        if let TokenTree::Group(group) = removed {
            for inside in self::mutants(&group.stream()) {
                let mut changed = trees.clone();
                changed[at] = Group::new(group.delimiter(), inside).into();
                mutants.push(changed.into_iter().collect());
            }
        }
    }
    mutants
}

/// A change of one token. `at` selects it among the tokens of all depths.
#[derive(Clone, Debug)]
pub(crate) struct Edit {
    at: Index,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Delete,
    Duplicate,
    /// Swaps it with the next token.
    Swap,
    /// Puts it in a group.
    Wrap(Delimiter),
    /// Replaces a group by its content.
    Unwrap,
    Replace(TokenStream),
    Insert(TokenStream),
}

/// Tokens with a meaning for us, or for the parsers that we use, separated by two spaces.
const TOKENS: &str = r##"
    <  >  =  ==  ,  ;  ::  :  #  #!  !  ?  &  &&  ..  ->  =>  |  'a  _
    7  1.5  30u8  'c'  true  ""  "30s"  "30s"x  "<id>"  "<self.id>:<r#fn.0.len()>"  r#"é<id>"#
    "\u{e9}<idd>"  "<é"  b"a"  c"a"  self  Self  crate  super  async  await  move  fn  gen  r#fn
    pub  mut  ref  dyn  impl  where  unsafe  const  static  struct  enum  union  box  key  ttl  wait
    lease  never  forever  detach  on_cancel  on_busy  skip  enabled  metric  rename  distributed_lock  key_part
    mode  shared  exclusive  permits  0  4294967296  shared("b:<id>")  shared()  permits = 3
    mode = shared
    __arg1  id  ()  []  {}  (a, b)  [0; 3]  #[cfg(any())]  #[doc = "a"]  #[doc(hidden)]
    #[distributed_lock(key = "b")]  #[key_part(skip)]  Box::pin(async move { 1 })  async { 1 }
    impl Future<Output = ()>  Option::<T>::None  <T as A>::B  |e| e
"##;

pub(crate) fn edits() -> impl Strategy<Value = Vec<Edit>> {
    const DELIMITERS: &[Delimiter] = &[
        Delimiter::None,
        Delimiter::Parenthesis,
        Delimiter::Bracket,
        Delimiter::Brace,
    ];
    let tokens: Vec<&str> = TOKENS.split("  ").map(str::trim).collect();
    let token = || {
        prop::sample::select(tokens.clone())
            .prop_map(|text| text.parse::<TokenStream>().expect("tokens"))
    };
    let what = prop_oneof![
        Just(What::Delete),
        Just(What::Duplicate),
        Just(What::Swap),
        prop::sample::select(DELIMITERS).prop_map(What::Wrap),
        Just(What::Unwrap),
        token().prop_map(What::Replace),
        token().prop_map(What::Insert),
    ];
    let edit = (any::<Index>(), what).prop_map(|(at, what)| Edit { at, what });
    prop::collection::vec(edit, 1..6)
}

/// Returns `stream` after all `edits`, one after the other.
pub(crate) fn edited(stream: TokenStream, edits: &[Edit]) -> TokenStream {
    edits
        .iter()
        .fold(stream, |stream, edit| match count(stream.clone()) {
            0 => stream,
            all => edit.apply(stream, &mut edit.at.index(all)),
        })
}

fn count(stream: TokenStream) -> usize {
    let inside = |tree| match tree {
        TokenTree::Group(group) => count(group.stream()),
        _ => 0,
    };
    stream.into_iter().map(|tree| 1 + inside(tree)).sum()
}

impl Edit {
    /// Counts `left` down to the selected token.
    fn apply(&self, stream: TokenStream, left: &mut usize) -> TokenStream {
        let mut trees = stream.into_iter();
        let mut out = TokenStream::new();
        while let Some(tree) = trees.next() {
            if *left == 0 {
                // Done: no other token matches.
                *left = usize::MAX;
                self.what.write(tree, trees.next(), &mut out);
                continue;
            }
            *left -= 1;
            out.extend([match tree {
                TokenTree::Group(group) => {
                    Group::new(group.delimiter(), self.apply(group.stream(), left)).into()
                }
                tree => tree,
            }]);
        }
        out
    }
}

impl What {
    fn write(&self, tree: TokenTree, next: Option<TokenTree>, out: &mut TokenStream) {
        match self {
            Self::Delete => {}
            Self::Duplicate => out.extend([tree.clone(), tree]),
            Self::Swap => {
                out.extend(next.into_iter().chain([tree]));
                return;
            }
            Self::Wrap(delimiter) => {
                out.extend([TokenTree::from(Group::new(*delimiter, tree.into()))]);
            }
            Self::Unwrap => match tree {
                TokenTree::Group(group) => out.extend(group.stream()),
                tree => out.extend([tree]),
            },
            Self::Replace(tokens) => out.extend(tokens.clone()),
            Self::Insert(tokens) => out.extend(tokens.clone().into_iter().chain([tree])),
        }
        out.extend(next);
    }
}
