!> Every call of the module `ars`, as everything.c makes them in C.
module everything_parts
   use ars
   use, intrinsic :: iso_fortran_env, only: real64
   implicit none
   type :: point
      real(real64) :: x, y
   end type
   real(real64) :: limit

contains

   function in_disc(context) result(accepted)
      class(*), intent(inout) :: context
      logical :: accepted
      accepted = .false.
      select type (context)
      type is (point)
         context%x = ars_sample("px", ars_uniform(-1d0, 1d0))
         context%y = ars_sample("py", ars_uniform(-1d0, 1d0))
         accepted = context%x * context%x + context%y * context%y < limit
      end select
   end function

   function gamma_above(least) result(total)
      real(real64), intent(in) :: least
      real(real64) :: total, g, b
      type(ars_loop) :: loop, inner
      loop = ars_loop("gamma above")
      inner = ars_loop("beta below")
      do
         call ars_loop_try(loop)
         g = ars_sample("g", ars_gamma(2d0, 1.5d0))
         do
            call ars_loop_try(inner)
            b = ars_sample("b", ars_beta(2d0, 3d0))
            if (b <= 0.6d0) exit
         end do
         call ars_loop_accept(inner)
         if (g + b >= least) exit
      end do
      call ars_loop_accept(loop)
      total = g + b
   end function

end module

program everything
   use ars
   use everything_parts
   implicit none
   real(real64) :: ox, oy

   if (len(ars_version()) < 5) error stop "ars_version"
   if (ars_in_trace()) error stop "ars_in_trace before the first trace"
   call ars_flat_policy("ars_uniform", ars_latent) ! the last one that matches decides
   call ars_flat_policy("*", ars_nuisance)
   do while (ars_next_trace())
      call model()
   end do

contains

   function in_other_disc() result(accepted)
      logical :: accepted
      ox = ars_sample("px", ars_uniform(-1d0, 1d0))
      oy = ars_sample("py", ars_uniform(-1d0, 1d0))
      accepted = ox * ox + oy * oy < limit
   end function

   subroutine model()
      real(real64) :: sum, y, seen(2), half, matrix(2, 3)
      real(real64), allocatable :: given(:)
      type(ars_dist) :: two(2)
      real(real64) :: three(3), whole(4), shares(3)
      real(real64), parameter :: factor(2, 2) = reshape([1d0, 0.3d0, 0d0, 0.8d0], [2, 2]) ! by columns
      type(point) :: at
      if (.not. ars_in_trace()) error stop "ars_in_trace in a trace"
      half = 0.5d0
      sum = ars_sample("n   ", ars_normal(0d0, 1d0))
      limit = 0.7d0 + 0.2d0 * ars_sample("u", ars_uniform(0d0, 1d0))
      sum = sum + ars_sample("bernoulli", ars_bernoulli(0.3d0))
      sum = sum + ars_sample("poisson", ars_poisson(2.5d0))
      sum = sum + ars_sample("binomial", ars_binomial(7, 0.4d0))
      sum = sum + ars_sample("exponential", ars_exponential(3d0))
      sum = sum + ars_sample("weibull", ars_weibull(1.5d0, 2d0))
      sum = sum + ars_sample("lognormal", ars_lognormal(0d0, 0.3d0))
      sum = sum + ars_sample("truncated", ars_truncated_normal(0d0, 1d0, -0.5d0, 2d0))
      sum = sum + ars_sample("count", ars_negative_binomial(2.5d0, 0.4d0))
      sum = sum + ars_sample("student", ars_student_t(3d0, 0.5d0, 1d0))
      sum = sum + ars_sample("categorical", ars_categorical([half - 0.3d0, half, 0.3d0]))
      sum = sum + ars_draw(ars_normal(0d0, 0.1d0))
      call ars_scope_push("flat")
      sum = sum + ars_flat()
      sum = sum + ars_sample(ars_normal(0d0, 0.2d0))
      call ars_scope_pop()
      three = ars_sample_vector("three", [ars_normal(0d0, 1d0), ars_normal(1d0, 0.5d0), ars_normal(2d0, 0.1d0)])
      whole = ars_sample_vector("whole", [ars_multivariate_normal([0d0, half], factor), &
                                          ars_multivariate_normal([1d0, 2d0], factor)])
      shares = ars_draw_vector([ars_dirichlet([1d0, 2d0, half])])
      if (ars_dimension(ars_dirichlet([1d0, 2d0, half])) /= 3) error stop "ars_dimension"
      sum = sum + (three(2) * whole(4) + shares(3))
      call ars_reject("disc", in_disc, at)
      call ars_reject("other disc", in_other_disc)
      sum = sum + (gamma_above(0.8d0) + at%x * at%y + ox)
      y = ars_observe("y", ars_normal(sum, 2d0))
      call ars_observe_normals("pair", [at%x, at%y], [0.5d0, 0.7d0], seen)
      y = y + ars_observe_value("held", ars_student_t(4d0, sum, 1d0), 5.5d0)
      two = [ars_poisson(1d0 + at%x * at%x), ars_normal(at%y, 1d0)]
      call ars_observe_vector("two", two)
      call ars_observe_values("both", two, [1d0, 0.25d0], seen)
      call ars_result("log density", ars_log_density(two(2), at%x))
      matrix = reshape([at%x, 1d0, at%y, 2d0, sum, 3d0], [2, 3])
      call ars_results_shaped("matrix", reshape(matrix, [size(matrix)]), shape(matrix))
      call ars_factor("soft", -0.1d0 * at%x * at%x)
      call ars_result("sum", sum)
      given = [merge(1d0, 0d0, ars_in_loop()), ars_given("pair")]
      call ars_result("given", given(size(given)))
      call ars_results("point", [at%x, at%y, seen(2)])
      if (ars_in_continuation()) return
      if (ars_standalone()) print '(2es24.15)', sum, y
   end subroutine

end program
