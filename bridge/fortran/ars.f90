!> The interface of ars.h in Fortran 2008.
!>
!>     use ars
!>     type(ars_loop) :: loop
!>     loop = ars_loop("name")
!>     do
!>        call ars_loop_try(loop)                                ! entry, and every retry
!>        x = ars_sample("x", ars_uniform(-1d0, 1d0))
!>        if (x * x < 0.5d0) exit
!>     end do
!>     call ars_loop_accept(loop)
!>     y = ars_observe("y", ars_normal(x, 0.1d0))
!>
!> ars.h says what each call does and what a simulator must keep to: one thread, every loop ended, nothing observed inside a
!> loop. Numbers are real(c_double), which is double precision. Trailing blanks of names do not count.
module ars
   use, intrinsic :: iso_c_binding, only: c_associated, c_bool, c_char, c_double, c_f_pointer, c_funloc, c_funptr, c_int, c_loc, &
                                          c_long_long, c_null_char, c_null_ptr, c_ptr, c_size_t
   implicit none
   private

   public :: ars_dist, ars_loop, ars_accepts, ars_accepts_with
   public :: ars_uniform, ars_normal, ars_bernoulli, ars_categorical, ars_poisson, ars_binomial, ars_beta, ars_gamma
   public :: ars_exponential, ars_weibull, ars_lognormal, ars_truncated_normal, ars_negative_binomial, ars_student_t
   public :: ars_log_density
   public :: ars_sample_vector, ars_draw_vector, ars_dimension, ars_multivariate_normal, ars_dirichlet
   public :: ars_observe_value, ars_observe_vector, ars_observe_values
   public :: ars_given, ars_in_loop
   public :: ars_flat, ars_scope_push, ars_scope_pop, ars_flat_policy, ars_latent, ars_nuisance
   public :: ars_sample, ars_draw, ars_observe, ars_observe_normals, ars_factor, ars_result, ars_results
   public :: ars_results_shaped
   public :: ars_run, ars_next_trace, ars_in_trace, ars_in_continuation, ars_standalone, ars_version
   public :: ars_loop_try, ars_loop_accept, ars_loop_abandon, ars_reject

   !> For ars_flat_policy.
   integer, parameter :: ars_latent = 1, ars_nuisance = 2

   integer, parameter :: longest_name = 1024 ! bytes; libars refuses longer addresses

   !> A distribution, built where it is used.
   type, bind(c) :: ars_dist
      private
      integer(c_int) :: kind
      integer(c_int) :: n
      type(c_ptr) :: p
      real(c_double) :: a(4)
   end type

   !> The handle of a rejection loop: loop = ars_loop("name").
   type, bind(c) :: ars_loop
      private
      type(c_ptr) :: name
      integer(c_int) :: ready = 0
      integer(c_int) :: depth = 0
      integer(c_long_long) :: entry = 0
   end type

   interface ars_loop
      module procedure loop_of_name
   end interface

   !> ars_sample("name", d): a latent, proposed by the controller, recorded under its name. ars_sample(d): the same, named by
   !> its call path, as ars_flat is.
   interface ars_sample
      module procedure sample_named, sample_unnamed
   end interface

   abstract interface
      !> One try of ars_reject: whether it was accepted.
      function ars_accepts() result(accepted)
         logical :: accepted
      end function
      !> The same, with what ars_reject was given.
      function ars_accepts_with(context) result(accepted)
         class(*), intent(inout) :: context
         logical :: accepted
      end function
      subroutine model_of_one_trace()
      end subroutine
   end interface

   !> call ars_reject("name", body): repeats body until it is true. call ars_reject("name", body, context) passes it
   !> something to work on. The promise of ars_reject in ars.h holds: body changes nothing that an earlier try has left.
   interface ars_reject
      module procedure reject, reject_with
   end interface

   ! ---- distributions: the arguments of ars.h -------------------------------------------------------------------------

   interface
      type(ars_dist) function ars_uniform(low, high) bind(c, name="ars_uniform")
         import :: ars_dist, c_double
         real(c_double), value :: low, high
      end function
      type(ars_dist) function ars_normal(mean, std) bind(c, name="ars_normal")
         import :: ars_dist, c_double
         real(c_double), value :: mean, std
      end function
      type(ars_dist) function ars_bernoulli(p) bind(c, name="ars_bernoulli")
         import :: ars_dist, c_double
         real(c_double), value :: p
      end function
      type(ars_dist) function ars_poisson(rate) bind(c, name="ars_poisson")
         import :: ars_dist, c_double
         real(c_double), value :: rate
      end function
      type(ars_dist) function ars_binomial(n, p) bind(c, name="ars_binomial")
         import :: ars_dist, c_double, c_int
         integer(c_int), value :: n
         real(c_double), value :: p
      end function
      type(ars_dist) function ars_beta(a, b) bind(c, name="ars_beta")
         import :: ars_dist, c_double
         real(c_double), value :: a, b
      end function
      type(ars_dist) function ars_gamma(shape, rate) bind(c, name="ars_gamma")
         import :: ars_dist, c_double
         real(c_double), value :: shape, rate
      end function
      type(ars_dist) function ars_exponential(rate) bind(c, name="ars_exponential")
         import :: ars_dist, c_double
         real(c_double), value :: rate
      end function
      type(ars_dist) function ars_weibull(scale, shape) bind(c, name="ars_weibull")
         import :: ars_dist, c_double
         real(c_double), value :: scale, shape
      end function
      type(ars_dist) function ars_lognormal(mu, sigma) bind(c, name="ars_lognormal")
         import :: ars_dist, c_double
         real(c_double), value :: mu, sigma
      end function
      type(ars_dist) function ars_truncated_normal(mean, std, low, high) bind(c, name="ars_truncated_normal")
         import :: ars_dist, c_double
         real(c_double), value :: mean, std, low, high
      end function
      !> Failures before r successes, each of probability p; r need not be whole.
      type(ars_dist) function ars_negative_binomial(r, p) bind(c, name="ars_negative_binomial")
         import :: ars_dist, c_double
         real(c_double), value :: r, p
      end function
      type(ars_dist) function ars_student_t(df, loc, scale) bind(c, name="ars_student_t")
         import :: ars_dist, c_double
         real(c_double), value :: df, loc, scale
      end function
      real(c_double) function c_log_density(d, x) bind(c, name="ars_log_density")
         import :: ars_dist, c_double
         type(ars_dist), value :: d
         real(c_double), value :: x
      end function
      type(ars_dist) function c_categorical(p, k) bind(c, name="ars_categorical")
         import :: ars_dist, c_ptr, c_size_t
         type(c_ptr), value :: p
         integer(c_size_t), value :: k
      end function

      ! ---- draws, data, results --------------------------------------------------------------------------------------

      real(c_double) function c_sample(name, d) bind(c, name="ars_sample")
         import :: ars_dist, c_char, c_double
         character(kind=c_char), intent(in) :: name(*)
         type(ars_dist), value :: d
      end function
      real(c_double) function c_sample_unnamed(name, d) bind(c, name="ars_sample")
         import :: ars_dist, c_double, c_ptr
         type(c_ptr), value :: name
         type(ars_dist), value :: d
      end function
      !> A uniform draw strictly inside (0, 1), named by its call path.
      real(c_double) function ars_flat() bind(c, name="ars_flat")
         import :: c_double
      end function
      subroutine c_scope_push(name) bind(c, name="ars_scope_push")
         import :: c_char
         character(kind=c_char), intent(in) :: name(*)
      end subroutine
      !> Ends the innermost scope.
      subroutine ars_scope_pop() bind(c, name="ars_scope_pop")
      end subroutine
      subroutine c_flat_policy(pattern, policy) bind(c, name="ars_flat_policy")
         import :: c_char, c_int
         character(kind=c_char), intent(in) :: pattern(*)
         integer(c_int), value :: policy
      end subroutine
      real(c_double) function c_draw(d) bind(c, name="ars_draw")
         import :: ars_dist, c_double
         type(ars_dist), value :: d
      end function
      subroutine c_sample_vector(name, d, n, values) bind(c, name="ars_sample_vector")
         import :: ars_dist, c_char, c_double, c_size_t
         character(kind=c_char), intent(in) :: name(*)
         type(ars_dist), intent(in) :: d(*)
         integer(c_size_t), value :: n
         real(c_double), intent(out) :: values(*)
      end subroutine
      subroutine c_draw_vector(d, n, values) bind(c, name="ars_draw_vector")
         import :: ars_dist, c_double, c_size_t
         type(ars_dist), intent(in) :: d(*)
         integer(c_size_t), value :: n
         real(c_double), intent(out) :: values(*)
      end subroutine
      type(ars_dist) function c_multivariate_normal(mean, cholesky, n) bind(c, name="ars_multivariate_normal")
         import :: ars_dist, c_ptr, c_size_t
         type(c_ptr), value :: mean, cholesky
         integer(c_size_t), value :: n
      end function
      type(ars_dist) function c_dirichlet(concentration, n) bind(c, name="ars_dirichlet")
         import :: ars_dist, c_ptr, c_size_t
         type(c_ptr), value :: concentration
         integer(c_size_t), value :: n
      end function
      !> How many values one draw has.
      integer(c_size_t) function ars_dimension(d) bind(c, name="ars_dimension")
         import :: ars_dist, c_size_t
         type(ars_dist), value :: d
      end function
      real(c_double) function c_observe(name, d) bind(c, name="ars_observe")
         import :: ars_dist, c_char, c_double
         character(kind=c_char), intent(in) :: name(*)
         type(ars_dist), value :: d
      end function
      real(c_double) function c_observe_value(name, d, given) bind(c, name="ars_observe_value")
         import :: ars_dist, c_char, c_double
         character(kind=c_char), intent(in) :: name(*)
         type(ars_dist), value :: d
         real(c_double), value :: given
      end function
      subroutine c_observe_vector(name, d, n, observed) bind(c, name="ars_observe_vector")
         import :: ars_dist, c_char, c_double, c_size_t
         character(kind=c_char), intent(in) :: name(*)
         type(ars_dist), intent(in) :: d(*)
         integer(c_size_t), value :: n
         real(c_double), intent(out) :: observed(*)
      end subroutine
      subroutine c_observe_values(name, d, n, given, observed) bind(c, name="ars_observe_values")
         import :: ars_dist, c_char, c_double, c_size_t
         character(kind=c_char), intent(in) :: name(*)
         type(ars_dist), intent(in) :: d(*)
         integer(c_size_t), value :: n
         real(c_double), intent(in) :: given(*)
         real(c_double), intent(out) :: observed(*)
      end subroutine
      subroutine c_observe_normals(name, mean, std, n, observed) bind(c, name="ars_observe_normals")
         import :: c_char, c_double, c_size_t
         character(kind=c_char), intent(in) :: name(*)
         real(c_double), intent(in) :: mean(*), std(*)
         integer(c_size_t), value :: n
         real(c_double), intent(out) :: observed(*)
      end subroutine
      subroutine c_factor(name, log_likelihood) bind(c, name="ars_factor")
         import :: c_char, c_double
         character(kind=c_char), intent(in) :: name(*)
         real(c_double), value :: log_likelihood
      end subroutine
      subroutine c_results_shaped(name, values, shape, n_dims) bind(c, name="ars_results_shaped")
         import :: c_char, c_double, c_size_t
         character(kind=c_char), intent(in) :: name(*)
         real(c_double), intent(in) :: values(*)
         integer(c_size_t), intent(in) :: shape(*)
         integer(c_size_t), value :: n_dims
      end subroutine
      subroutine c_results(name, values, n) bind(c, name="ars_results")
         import :: c_char, c_double, c_size_t
         character(kind=c_char), intent(in) :: name(*)
         real(c_double), intent(in) :: values(*)
         integer(c_size_t), value :: n
      end subroutine

      ! ---- running ---------------------------------------------------------------------------------------------------

      logical(c_bool) function c_next_trace() bind(c, name="ars_next_trace")
         import :: c_bool
      end function
      logical(c_bool) function c_in_trace() bind(c, name="ars_in_trace")
         import :: c_bool
      end function
      logical(c_bool) function c_in_continuation() bind(c, name="ars_in_continuation")
         import :: c_bool
      end function
      logical(c_bool) function c_in_loop() bind(c, name="ars_in_loop")
         import :: c_bool
      end function
      type(c_ptr) function c_given(name, n) bind(c, name="ars_given")
         import :: c_char, c_ptr, c_size_t
         character(kind=c_char), intent(in) :: name(*)
         integer(c_size_t), intent(out) :: n
      end function
      logical(c_bool) function c_standalone() bind(c, name="ars_standalone")
         import :: c_bool
      end function
      type(c_ptr) function c_version() bind(c, name="ars_version")
         import :: c_ptr
      end function

      ! ---- loops -----------------------------------------------------------------------------------------------------

      type(ars_loop) function c_loop_named(name) bind(c, name="ars_loop_named")
         import :: ars_loop, c_char
         character(kind=c_char), intent(in) :: name(*)
      end function
      !> A try begins: the entry of the loop, or a retry.
      subroutine ars_loop_try(loop) bind(c, name="ars_loop_try")
         import :: ars_loop
         type(ars_loop), intent(inout) :: loop
      end subroutine
      !> The try was accepted, and the loop is over.
      subroutine ars_loop_accept(loop) bind(c, name="ars_loop_accept")
         import :: ars_loop
         type(ars_loop), intent(inout) :: loop
      end subroutine
      !> The try was rejected, and there will be no other: the loop is given up. Calling it anywhere tells libars, when the
      !> program starts, that loops can be given up (abandon.c).
      subroutine ars_loop_abandon(loop) bind(c, name="ars__fortran_loop_abandon")
         import :: ars_loop
         type(ars_loop), intent(inout) :: loop
      end subroutine
      subroutine c_reject(name, body, context) bind(c, name="ars__reject_named")
         import :: c_char, c_funptr, c_ptr
         character(kind=c_char), intent(in) :: name(*)
         type(c_funptr), value :: body
         type(c_ptr), value :: context
      end subroutine
   end interface

   !> What ars_reject hands through C to its body.
   type :: rejected_body
      procedure(ars_accepts), pointer, nopass :: plain => null()
      procedure(ars_accepts_with), pointer, nopass :: with => null()
      class(*), pointer :: context => null()
   end type

   !> Parameters that distributions point to: an expression given to ars_categorical is gone when its result is used. Those
   !> made before the first trace stay; those of a trace stay until it ends, or until `most` others have been made in it.
   !> A distribution knows its place and its serial number, so that using it later is an error.
   type :: parameters
      real(c_double), allocatable :: p(:)
      integer(c_long_long) :: serial = 0
   end type
   integer, parameter :: per_block = 256, most = 256 * per_block
   type :: parameter_block
      type(parameters), pointer :: made(:) => null()
   end type
   type(parameter_block), save :: blocks(most / per_block)
   integer, save :: latest = 0, permanent = 0
   integer(c_long_long), save :: n_made = 0
   logical, save :: tracing = .false.

contains

   !> The name as C has it.
   pure function c_name(name) result(text)
      character(*), intent(in) :: name
      character(kind=c_char) :: text(min(len_trim(name), longest_name + 1) + 1)
      integer :: i
      do i = 1, size(text) - 1
         text(i) = name(i:i)
      end do
      text(size(text)) = c_null_char
   end function

   function place_of(number) result(place)
      integer, intent(in) :: number
      type(parameters), pointer :: place
      place => blocks((number - 1) / per_block + 1)%made(mod(number - 1, per_block) + 1)
   end function

   !> Of distributions with arrays, libars reads at most a(1).
   subroutine mark_place(d)
      type(ars_dist), intent(inout) :: d
      d%a(3) = latest
      d%a(4) = real(n_made, c_double)
   end subroutine

   !> Ends the program if the parameters of d are gone.
   subroutine check_kept(d)
      type(ars_dist), intent(in) :: d
      type(parameters), pointer :: place
      integer :: number
      if (.not. c_associated(d%p)) return
      if (.not. (d%a(3) >= 1 .and. d%a(3) <= most)) return ! never made: libars says so
      number = int(d%a(3))
      if (.not. associated(blocks((number - 1) / per_block + 1)%made)) return
      place => place_of(number)
      if (place%serial == int(d%a(4), c_long_long)) return
      error stop "ars: a distribution with an array of parameters was used after its trace, or after 65536 others were made"
   end subroutine

   function kept(p) result(at)
      real(c_double), intent(in) :: p(:)
      real(c_double), pointer :: at(:)
      type(parameters), pointer :: place
      integer :: block
      if (permanent == most) error stop "ars: 65536 distributions with arrays of parameters were made before the first trace"
      latest = latest + 1
      if (latest > most) latest = permanent + 1
      block = (latest - 1) / per_block + 1
      if (.not. associated(blocks(block)%made)) allocate (blocks(block)%made(per_block))
      place => place_of(latest)
      n_made = n_made + 1
      place%serial = n_made
      place%p = p
      at => place%p
   end function

   !> A trace begins: parameters of the last one are no longer needed.
   subroutine forget_parameters()
      if (.not. tracing) permanent = latest
      tracing = .true.
      latest = permanent
   end subroutine

   !> 0 to size(p) - 1, with these probabilities; they sum to 1. Use it in the same trace, before 65,536 others are made, or
   !> make it before the first trace.
   function ars_categorical(p) result(d)
      real(c_double), intent(in) :: p(:)
      type(ars_dist) :: d
      d = c_categorical(c_loc(kept(p)), size(p, kind=c_size_t))
      call mark_place(d)
   end function

   !> A Normal of vectors: its mean, and the lower Cholesky factor of its covariance. It lasts as long as a Categorical.
   function ars_multivariate_normal(mean, cholesky) result(d)
      real(c_double), intent(in) :: mean(:), cholesky(:, :)
      type(ars_dist) :: d
      real(c_double), pointer :: at(:)
      integer(c_size_t) :: n
      n = size(mean, kind=c_size_t)
      if (size(cholesky, 1) /= n .or. size(cholesky, 2) /= n) &
         error stop "ars_multivariate_normal: cholesky must have as many rows and columns as mean has numbers"
      at => kept([mean, reshape(transpose(cholesky), [n * n])]) ! row by row, as C has it
      d = c_multivariate_normal(c_loc(at), c_loc(at(n + 1)), n)
      call mark_place(d)
   end function

   !> Positive numbers that sum to 1. It lasts as long as a Categorical.
   function ars_dirichlet(concentration) result(d)
      real(c_double), intent(in) :: concentration(:)
      type(ars_dist) :: d
      d = c_dirichlet(c_loc(kept(concentration)), size(concentration, kind=c_size_t))
      call mark_place(d)
   end function

   function sample_named(name, d) result(drawn)
      character(*), intent(in) :: name
      type(ars_dist), intent(in) :: d
      real(c_double) :: drawn
      call check_kept(d)
      drawn = c_sample(c_name(name), d)
   end function

   !> A nuisance: always drawn from the prior, never recorded.
   function ars_draw(d) result(drawn)
      type(ars_dist), intent(in) :: d
      real(c_double) :: drawn
      call check_kept(d)
      drawn = c_draw(d)
   end function

   !> The log density or log probability of x.
   function ars_log_density(d, x) result(log_density)
      type(ars_dist), intent(in) :: d
      real(c_double), intent(in) :: x
      real(c_double) :: log_density
      call check_kept(d)
      log_density = c_log_density(d, x)
   end function

   !> Latents of one site in one request; the values of one distribution after another.
   function ars_sample_vector(name, d) result(drawn)
      character(*), intent(in) :: name
      type(ars_dist), intent(in) :: d(:)
      real(c_double), allocatable :: drawn(:)
      allocate (drawn(total_dimension(d)))
      call c_sample_vector(c_name(name), d, size(d, kind=c_size_t), drawn)
   end function

   !> Nuisances: always drawn from the prior, never recorded.
   function ars_draw_vector(d) result(drawn)
      type(ars_dist), intent(in) :: d(:)
      real(c_double), allocatable :: drawn(:)
      allocate (drawn(total_dimension(d)))
      call c_draw_vector(d, size(d, kind=c_size_t), drawn)
   end function

   function total_dimension(d) result(total)
      type(ars_dist), intent(in) :: d(:)
      integer(c_size_t) :: total
      integer :: i, n_kept
      total = 0
      n_kept = 0
      do i = 1, size(d)
         call check_kept(d(i))
         total = total + ars_dimension(d(i))
         if (c_associated(d(i)%p)) n_kept = n_kept + 1
      end do
      if (n_kept > most - permanent) error stop "ars: one call takes at most 65536 distributions with arrays of parameters"
   end function

   function sample_unnamed(d) result(drawn)
      type(ars_dist), intent(in) :: d
      real(c_double) :: drawn
      call check_kept(d)
      drawn = c_sample_unnamed(c_null_ptr, d)
   end function

   !> A prefix for the names of unnamed draws, until ars_scope_pop.
   subroutine ars_scope_push(name)
      character(*), intent(in) :: name
      call c_scope_push(c_name(name))
   end subroutine

   !> Unnamed draws whose address matches the pattern are latents (ars_latent) or nuisances (ars_nuisance); before the first
   !> trace.
   subroutine ars_flat_policy(pattern, policy)
      character(*), intent(in) :: pattern
      integer, intent(in) :: policy
      call c_flat_policy(c_name(pattern), int(policy, c_int))
   end subroutine

   !> Data. With data given: scores it and returns it; else draws it.
   function ars_observe(name, d) result(observed)
      character(*), intent(in) :: name
      type(ars_dist), intent(in) :: d
      real(c_double) :: observed
      call check_kept(d)
      observed = c_observe(c_name(name), d)
   end function

   !> Independent Normals at once; observed (optional) receives what was observed.
   subroutine ars_observe_normals(name, mean, std, observed)
      character(*), intent(in) :: name
      real(c_double), intent(in) :: mean(:), std(:)
      real(c_double), intent(out), optional :: observed(:)
      real(c_double) :: drawn(size(mean))
      if (size(std) /= size(mean)) error stop "ars_observe_normals: mean and std must have the same size"
      call c_observe_normals(c_name(name), mean, std, size(mean, kind=c_size_t), drawn)
      if (.not. present(observed)) return
      if (size(observed) /= size(mean)) error stop "ars_observe_normals: mean and observed must have the same size"
      observed = drawn
   end subroutine

   !> Data that the program itself holds: scored in a posterior run, unless the controller gives data of this name.
   function ars_observe_value(name, d, given) result(observed)
      character(*), intent(in) :: name
      type(ars_dist), intent(in) :: d
      real(c_double), intent(in) :: given
      real(c_double) :: observed
      call check_kept(d)
      observed = c_observe_value(c_name(name), d, given)
   end function

   !> Independent observations at once, from any distributions; observed (optional) receives what was observed.
   subroutine ars_observe_vector(name, d, observed)
      character(*), intent(in) :: name
      type(ars_dist), intent(in) :: d(:)
      real(c_double), intent(out), optional :: observed(:)
      real(c_double), allocatable :: drawn(:)
      allocate (drawn(total_dimension(d)))
      call c_observe_vector(c_name(name), d, size(d, kind=c_size_t), drawn)
      if (.not. present(observed)) return
      if (size(observed) /= size(drawn)) error stop "ars_observe_vector: observed must have a place for every number of d"
      observed = drawn
   end subroutine

   !> The same for data that the program itself holds.
   subroutine ars_observe_values(name, d, given, observed)
      character(*), intent(in) :: name
      type(ars_dist), intent(in) :: d(:)
      real(c_double), intent(in) :: given(:)
      real(c_double), intent(out), optional :: observed(:)
      real(c_double), allocatable :: drawn(:)
      if (size(given) /= total_dimension(d)) error stop "ars_observe_values: given must have every number of d"
      allocate (drawn(size(given)))
      call c_observe_values(c_name(name), d, size(d, kind=c_size_t), given, drawn)
      if (.not. present(observed)) return
      if (size(observed) /= size(drawn)) error stop "ars_observe_values: observed must have a place for every number of d"
      observed = drawn
   end subroutine

   !> All data that the controller gives for a name; none if it gives none, and in runs that simulate their data.
   function ars_given(name) result(given)
      character(*), intent(in) :: name
      real(c_double), allocatable :: given(:)
      real(c_double), pointer :: values(:)
      type(c_ptr) :: at
      integer(c_size_t) :: n
      allocate (given(0))
      at = c_given(c_name(name), n)
      if (n == 0) return
      call c_f_pointer(at, values, [n])
      given = values
   end function

   !> Multiplies the likelihood by exp(log_likelihood).
   subroutine ars_factor(name, log_likelihood)
      character(*), intent(in) :: name
      real(c_double), intent(in) :: log_likelihood
      call c_factor(c_name(name), log_likelihood)
   end subroutine

   !> A quantity of interest, recorded with the trace.
   subroutine ars_result(name, value)
      character(*), intent(in) :: name
      real(c_double), intent(in) :: value
      call c_results(c_name(name), [value], 1_c_size_t)
   end subroutine

   !> The same for an array.
   subroutine ars_results(name, values)
      character(*), intent(in) :: name
      real(c_double), intent(in) :: values(:)
      call c_results(c_name(name), values, size(values, kind=c_size_t))
   end subroutine

   !> The same for an array of several axes: call ars_results_shaped("h", reshape(h, [size(h)]), shape(h)). The first
   !> index runs fastest, as Fortran has it; Python sees the axes in the same order.
   subroutine ars_results_shaped(name, values, axes)
      character(*), intent(in) :: name
      real(c_double), intent(in) :: values(:)
      integer, intent(in) :: axes(:)
      real(c_double) :: turned(size(values))
      integer :: i, k, rest, at
      if (product(axes) /= size(values)) error stop "ars_results_shaped: values must have product(axes) elements"
      do i = 1, size(values)
         rest = i - 1
         at = 0
         do k = 1, size(axes)
            at = at + mod(rest, axes(k)) * product(axes(k + 1:))
            rest = rest / axes(k)
         end do
         turned(at + 1) = values(i)
      end do
      call c_results_shaped(c_name(name), turned, int(axes, c_size_t), size(axes, kind=c_size_t))
   end subroutine

   !> Runs the model, a subroutine without arguments, once per trace.
   subroutine ars_run(model)
      procedure(model_of_one_trace) :: model
      do while (ars_next_trace())
         call model()
      end do
   end subroutine

   !> For a simulator with its own event loop: do while (ars_next_trace()).
   function ars_next_trace() result(more)
      logical :: more
      more = c_next_trace()
      if (more) call forget_parameters()
   end function

   !> True inside a trace: code that also runs before the first one can ask whether it may draw.
   function ars_in_trace() result(is_inside)
      logical :: is_inside
      is_inside = c_in_trace()
   end function

   !> True in a re-run of a loop, whose only effect should be its acceptance.
   function ars_in_continuation() result(is_one)
      logical :: is_one
      is_one = c_in_continuation()
   end function

   !> True between the entry of a marked loop and its end.
   function ars_in_loop() result(is_open)
      logical :: is_open
      is_open = c_in_loop()
   end function

   !> True when no controller drives this process: the place to print results from.
   function ars_standalone() result(is_alone)
      logical :: is_alone
      is_alone = c_standalone()
   end function

   !> The version of libars, such as "0.1.0".
   function ars_version() result(version)
      character(:), allocatable :: version
      character(kind=c_char), pointer :: text(:)
      integer :: i
      call c_f_pointer(c_version(), text, [64])
      version = ""
      do i = 1, size(text)
         if (text(i) == c_null_char) exit
         version = version // text(i)
      end do
   end function

   function loop_of_name(name) result(loop)
      character(*), intent(in) :: name
      type(ars_loop) :: loop
      loop = c_loop_named(c_name(name))
   end function

   subroutine reject(name, body)
      character(*), intent(in) :: name
      procedure(ars_accepts) :: body
      type(rejected_body), target :: handed
      handed%plain => body
      call c_reject(c_name(name), c_funloc(try_once), c_loc(handed))
   end subroutine

   subroutine reject_with(name, body, context)
      character(*), intent(in) :: name
      procedure(ars_accepts_with) :: body
      class(*), intent(inout), target :: context
      type(rejected_body), target :: handed
      handed%with => body
      handed%context => context
      call c_reject(c_name(name), c_funloc(try_once), c_loc(handed))
   end subroutine

   function try_once(context) result(accepted) bind(c)
      type(c_ptr), value :: context
      logical(c_bool) :: accepted
      type(rejected_body), pointer :: handed
      call c_f_pointer(context, handed)
      if (associated(handed%with)) then
         accepted = handed%with(handed%context)
      else
         accepted = handed%plain()
      end if
   end function

end module ars
